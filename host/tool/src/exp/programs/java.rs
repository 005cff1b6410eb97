//! OpenJDK: a map-reduce over 2^20 lines, compiled and run.

use super::program::Program;

/// Map tasks sort numbers into files by key, reduce tasks add what each key got; the sums are known.
pub const JAVA: Program = Program {
    packages: &["openjdk-17-jdk-headless"],
    size_mib: 1536,
    generate: &[("/srv/lines", 16 << 20)],
    files: &[("/root/MapReduce.java", SOURCE)],
    script: r#"
J=$(echo /usr/lib/jvm/java-17-openjdk-*/bin); PATH=$J:$PATH
begins
javac MapReduce.java || failed javac
java -Xmx256m MapReduce /srv/lines /tmp > /tmp/java.log 2>&1 || failed "java: $(tail -5 /tmp/java.log)"
worked 1048576
same "keys 4096 right 4096 lines 1048576" "$(cat /tmp/java.log)" result
"#,
    ..Program::new("java", "lines")
};

const SOURCE: &str = r#"
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.*;

public class MapReduce {
    static final int TASKS = 8, PARTS = 4, KEYS = 4096;

    public static void main(String[] args) throws Exception {
        File lines = new File(args[0]), folder = new File(args[1]);
        ExecutorService pool = Executors.newFixedThreadPool(4);
        List<Future<Long>> maps = new ArrayList<>();
        long each = lines.length() / TASKS;
        for (int task = 0; task < TASKS; task++) {
            final int own = task;
            maps.add(pool.submit(() -> map(lines, own * each, each, folder, own)));
        }
        long seen = 0;
        for (Future<Long> map : maps) seen += map.get();
        List<Future<Map<Integer, Long>>> reduces = new ArrayList<>();
        for (int part = 0; part < PARTS; part++) {
            final int own = part;
            reduces.add(pool.submit(() -> reduce(folder, own)));
        }
        int keys = 0, right = 0;
        for (Future<Map<Integer, Long>> reduce : reduces)
            for (Map.Entry<Integer, Long> entry : reduce.get().entrySet()) {
                keys++;
                // Key k has the numbers k, k + 4096, ... below 2^20.
                if (entry.getValue() == 256L * entry.getKey() + 4096L * (255 * 256 / 2)) right++;
            }
        pool.shutdown();
        System.out.println("keys " + keys + " right " + right + " lines " + seen);
    }

    static long map(File lines, long from, long bytes, File folder, int task) throws IOException {
        DataOutputStream[] out = new DataOutputStream[PARTS];
        for (int part = 0; part < PARTS; part++) out[part] = new DataOutputStream(new BufferedOutputStream(new FileOutputStream(new File(folder, task + "-" + part))));
        long seen = 0;
        try (FileInputStream in = new FileInputStream(lines)) {
            in.skipNBytes(from);
            BufferedReader reader = new BufferedReader(new InputStreamReader(in, StandardCharsets.US_ASCII));
            for (; seen < bytes / 16; seen++) {
                long number = Long.parseLong(reader.readLine().trim());
                int key = (int) (number % KEYS);
                DataOutputStream to = out[key % PARTS];
                to.writeInt(key);
                to.writeLong(number);
            }
        }
        for (DataOutputStream one : out) one.close();
        return seen;
    }

    static Map<Integer, Long> reduce(File folder, int part) throws IOException {
        Map<Integer, Long> sums = new TreeMap<>();
        for (int task = 0; task < TASKS; task++)
            try (DataInputStream in = new DataInputStream(new BufferedInputStream(new FileInputStream(new File(folder, task + "-" + part))))) {
                for (;;) {
                    int key;
                    try { key = in.readInt(); } catch (EOFException end) { break; }
                    sums.merge(key, in.readLong(), Long::sum);
                }
            }
        return sums;
    }
}
"#;
