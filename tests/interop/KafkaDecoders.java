import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.DefaultRecord;
import org.apache.kafka.common.record.internal.Record;

/** Says what the parsers of kafka-dump-log make of records: a line of input, a line of output. */
public class KafkaDecoders {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, String> PARSERS = Map.of(
        "offsets", "OffsetsMessageParser",
        "transaction-log", "TransactionLogMessageParser",
        "cluster-metadata", "ClusterMetadataLogMessageParser",
        "remote-log-metadata", "RemoteMetadataLogMessageParser",
        "share-group-state", "ShareGroupStateMessageParser");

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        Map<String, Object> parsers = new LinkedHashMap<>();
        for (String kind : PARSERS.keySet()) parsers.put(kind, parser(PARSERS.get(kind)));
        for (String line; (line = lines.readLine()) != null; ) {
            Map<String, Object> asked = JSON.readValue(line, Map.class);
            Object parser = parsers.get(asked.get("kind"));
            Map<String, Object> answer = new LinkedHashMap<>();
            try {
                Object result = call(parser, "parse", Record.class, record(asked));
                answer.put("key", ((Optional<?>) call(result, "key")).orElse(null));
                answer.put("payload", ((Optional<?>) call(result, "value")).orElse(null));
            } catch (InvocationTargetException thrown) {
                answer.put("thrown", thrown.getCause().getMessage());
            }
            out.println(JSON.writeValueAsString(answer));
        }
        out.flush();
    }

    private static Object parser(String name) throws Exception {
        Class<?> type = Class.forName("org.apache.kafka.tools.DumpLogSegments$" + name);
        Constructor<?> made = type.getDeclaredConstructor();
        made.setAccessible(true);
        return made.newInstance();
    }

    private static Object call(Object on, String name, Object... given) throws Exception {
        Class<?>[] types = given.length == 0 ? new Class<?>[0] : new Class<?>[] {(Class<?>) given[0]};
        Method method = on.getClass().getMethod(name, types);
        method.setAccessible(true);
        return given.length == 0 ? method.invoke(on) : method.invoke(on, given[1]);
    }

    /** Made as it lies on disk, since no constructor of it is open to others. */
    private static Record record(Map<String, Object> asked) throws Exception {
        long offset = ((Number) asked.get("offset")).longValue();
        var bytes = new java.io.ByteArrayOutputStream();
        DefaultRecord.writeTo(new java.io.DataOutputStream(bytes), 0, 0L,
            buffer(asked.get("key")), buffer(asked.get("value")), new Header[0]);
        return DefaultRecord.readFrom(ByteBuffer.wrap(bytes.toByteArray()), offset, 0L, 0, null);
    }

    private static ByteBuffer buffer(Object hex) {
        return hex == null ? null : ByteBuffer.wrap(HexFormat.of().parseHex((String) hex));
    }
}
