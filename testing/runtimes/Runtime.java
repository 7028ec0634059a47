import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Managed memory in a Java program: compiled and interpreted code touches pages that the device has
 * written, while the virtual machine takes faults of its own for null references and stacks that
 * overflow.
 */
public class Runtime {
    static final int THREADS = 8, ROUNDS = 40, BYTES = 1 << 20;

    static native int init();

    static native int enter();

    static native ByteBuffer managed(long bytes);

    static native int fill(ByteBuffer memory, int value);

    static final AtomicLong sum = new AtomicLong();
    static final AtomicLong nulls = new AtomicLong();
    static final AtomicLong overflows = new AtomicLong();

    static void check(int rc) {
        if (rc != 0) {
            throw new IllegalStateException("the driver says " + rc);
        }
    }

    static int length(String s) {
        return s.length();
    }

    static int endless(int n) {
        return n + endless(n + 1);
    }

    /** What the virtual machine finds by faults. */
    static void ownFaults(int round) {
        for (int i = 0; i < 20000; i++) {
            try {
                length(i % 1000 == 0 ? null : "x");
            } catch (NullPointerException e) {
                nulls.incrementAndGet();
            }
        }
        if (round % 20 == 0) {
            try {
                endless(0);
            } catch (StackOverflowError e) {
                overflows.incrementAndGet();
            }
        }
    }

    /** Has the kernel read what the device wrote, and write to it. */
    static void transfer(ByteBuffer memory) throws Exception {
        check(fill(memory, 0x41414141));
        Path path = Files.createTempFile("busbar-java", "");
        StandardOpenOption[] both = {StandardOpenOption.READ, StandardOpenOption.WRITE};
        try (FileChannel file = FileChannel.open(path, both)) {
            memory.position(0).limit(65536);
            file.write(memory);
            check(fill(memory, 0x42424242));
            memory.position(4096).limit(8192);
            file.read(memory, 0);
            memory.clear();
        } finally {
            Files.delete(path);
        }
        for (int i = 0; i < 3 * 4096; i++) {
            int wanted = i / 4096 == 1 ? 0x41 : 0x42;
            if (memory.get(i) != wanted) {
                throw new IllegalStateException("byte " + i + " is " + memory.get(i));
            }
        }
    }

    static Void compute(int thread) throws Exception {
        check(enter());
        ByteBuffer memory = managed(BYTES).order(ByteOrder.LITTLE_ENDIAN);
        for (int round = 0; round < ROUNDS; round++) {
            check(fill(memory, round * 16 + thread));
            long s = 0;
            for (int i = 0; i < BYTES; i += 4 * 97) {
                s += memory.getInt(i);
            }
            for (int i = 0; i < BYTES; i += 4 * 997) {
                memory.putInt(i, i);
            }
            sum.addAndGet(s);
            ownFaults(round);
        }
        transfer(memory);
        return null;
    }

    public static void main(String[] args) throws Exception {
        System.load(args[0]);
        check(init());
        ExecutorService pool = Executors.newFixedThreadPool(THREADS);
        List<Future<Void>> all = new ArrayList<>();
        for (int t = 0; t < THREADS; t++) {
            int thread = t;
            all.add(pool.submit(() -> compute(thread)));
        }
        for (Future<Void> one : all) {
            one.get();
        }
        pool.shutdown();
        System.out.println("sum " + sum + ", nulls " + nulls + ", overflows " + overflows);
    }
}
