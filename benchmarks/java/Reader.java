import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.CloseableIterator;

/**
 * Reads a segment in memory with Kafka's own classes, as often as requested.
 *
 *     java -cp 'JARS/*' Reader.java WAY SEGMENT
 *
 * Each line of standard input is a number of passes; when they are done, it prints
 * the number of records in one, and the bytes of their keys and values. Every
 * checksum is verified. As Kafka's consumer does, buffers are kept from batch to batch.
 */
public final class Reader {
    private interface Way {
        void take(Record record);
    }

    /** Visits each record, and drops it. */
    private static final class Iterate implements Way {
        private long seen;

        @Override
        public void take(Record record) {
            seen += record.offset() + record.timestamp();
            touch(record.key());
            touch(record.value());
        }

        private void touch(ByteBuffer data) {
            if (data != null && data.hasRemaining()) {
                seen += data.get(data.position());
            }
        }
    }

    /** Collects offsets, timestamps, keys and values into arrays, which are retained. */
    private static final class Columns implements Way {
        private int rows;
        private long[] offset = new long[1 << 16];
        private long[] timestamp = new long[1 << 16];
        private final Cells key = new Cells();
        private final Cells value = new Cells();

        @Override
        public void take(Record record) {
            if (rows == offset.length) {
                offset = Arrays.copyOf(offset, 2 * rows);
                timestamp = Arrays.copyOf(timestamp, 2 * rows);
            }
            offset[rows] = record.offset();
            timestamp[rows] = record.timestamp();
            key.put(rows, record.key());
            value.put(rows, record.value());
            rows++;
        }

        private void again() {
            rows = 0;
            key.filled = 0;
            value.filled = 0;
        }
    }

    /** Strings of bytes, one behind another, and where each ends. */
    private static final class Cells {
        private int filled;
        private int[] end = new int[1 << 16];
        private byte[] data = new byte[1 << 20];

        private void put(int row, ByteBuffer cell) {
            if (row == end.length) {
                end = Arrays.copyOf(end, 2 * row);
            }
            if (cell != null) {
                int size = cell.remaining();
                if (filled + size > data.length) {
                    data = Arrays.copyOf(data, Math.max(filled + size, 2 * filled));
                }
                cell.get(data, filled, size);
                filled += size;
            }
            end[row] = filled;
        }
    }

    private final ByteBuffer segment;
    private final BufferSupplier buffers = BufferSupplier.create();
    private long records;
    private long bytes;

    private Reader(Path path) throws IOException {
        segment = ByteBuffer.wrap(Files.readAllBytes(path));
    }

    private void pass(Way way) {
        records = 0;
        bytes = 0;
        for (RecordBatch batch : MemoryRecords.readableRecords(segment.duplicate()).batches()) {
            batch.ensureValid();
            try (CloseableIterator<Record> found = batch.streamingIterator(buffers)) {
                while (found.hasNext()) {
                    Record record = found.next();
                    way.take(record);
                    records++;
                    bytes += Math.max(0, record.keySize()) + Math.max(0, record.valueSize());
                }
            }
        }
    }

    public static void main(String[] arguments) throws IOException {
        Columns columns = arguments[0].equals("java-columns") ? new Columns() : null;
        Way way = columns != null ? columns : new Iterate();
        Reader reader = new Reader(Path.of(arguments[1]));
        BufferedReader asked = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = asked.readLine()) != null; ) {
            for (int left = Integer.parseInt(line); left > 0; left--) {
                if (columns != null) {
                    columns.again();
                }
                reader.pass(way);
            }
            System.out.println(reader.records + " " + reader.bytes);
        }
    }
}
