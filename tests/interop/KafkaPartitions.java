import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.util.Base64;
import java.util.concurrent.atomic.AtomicBoolean;
import kafka.coordinator.transaction.TransactionStateManager;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.coordinator.group.GroupCoordinatorService;
import sun.misc.Unsafe;

/**
 * Prints which partition Kafka chooses for each line of input, as a group, as a transactional id and
 * as a record's key. A line is a name in UTF-16BE, in Base64. The argument is the number of partitions.
 */
public class KafkaPartitions {
    private static Unsafe unsafe;

    public static void main(String[] arguments) throws Exception {
        Field theUnsafe = Unsafe.class.getDeclaredField("theUnsafe");
        theUnsafe.setAccessible(true);
        unsafe = (Unsafe) theUnsafe.get(null);
        int partitions = Integer.parseInt(arguments[0]);
        GroupCoordinatorService groups = (GroupCoordinatorService) bare(GroupCoordinatorService.class);
        set(groups, "isActive", new AtomicBoolean(true));
        set(groups, "numPartitions", partitions);
        TransactionStateManager transactions = (TransactionStateManager) bare(TransactionStateManager.class);
        set(transactions, "transactionTopicPartitionCount", partitions);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            byte[] key = Base64.getDecoder().decode(line);
            char[] units = new char[key.length / 2];
            for (int i = 0; i < units.length; i++)
                units[i] = (char) ((key[2 * i] & 0xff) << 8 | key[2 * i + 1] & 0xff);
            String name = new String(units);
            System.out.println(groups.partitionFor(name) + " " + transactions.partitionFor(name) + " "
                + BuiltInPartitioner.partitionForKey(key, partitions));
        }
    }

    /** Returns an object whose constructor, which needs a broker, is not run. */
    private static Object bare(Class<?> of) throws Exception {
        return unsafe.allocateInstance(of);
    }

    private static void set(Object object, String name, Object value) throws Exception {
        Field field = object.getClass().getDeclaredField(name);
        field.setAccessible(true);
        field.set(object, value);
    }
}
