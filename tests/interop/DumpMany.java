import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.tools.DumpLogSegments;

/**
 * Runs Kafka's tool many times in one process: arguments are a line of a file each, with
 * tabs between, and what run N prints goes to N.out and N.err beside that file, with what
 * it ends in N.code. An exception is told as Java tells it, without the stack.
 */
public class DumpMany {
    public static void main(String[] args) throws Exception {
        Path cases = Path.of(args[0]);
        List<String> lines = Files.readAllLines(cases);
        for (int i = 0; i < lines.size(); i++) {
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            int code = run(lines.get(i).split("\t", -1), out, err);
            Files.write(cases.resolveSibling(i + ".out"), out.toByteArray());
            Files.write(cases.resolveSibling(i + ".err"), err.toByteArray());
            Files.writeString(cases.resolveSibling(i + ".code"), String.valueOf(code));
        }
    }

    private static final class Exited extends RuntimeException {
        private final int code;

        private Exited(int code) {
            this.code = code;
        }
    }

    private static int run(String[] args, ByteArrayOutputStream out, ByteArrayOutputStream err) {
        PrintStream told = new PrintStream(err, true, StandardCharsets.UTF_8);
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(told);
        Exit.setExitProcedure((code, message) -> {
            throw new Exited(code);
        });
        try {
            DumpLogSegments.main(args);
            return 0;
        } catch (Exited exited) {
            return exited.code;
        } catch (Throwable thrown) {
            told.println("Exception in thread \"main\" " + thrown);
            for (Throwable cause = thrown.getCause(); cause != null; cause = cause.getCause())
                told.println("Caused by: " + cause);
            return 1;
        } finally {
            System.out.flush();
        }
    }
}
