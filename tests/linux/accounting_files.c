// Checks what programs read of their own accounts: /proc/PID/io, the kinds of resident memory, Shmem, and the cgroup's memory.stat and io.stat.
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/shm.h>
#include <sys/uio.h>

enum { PAGE = 4096, SOME = 64 * PAGE };
static char text[1 << 16], data[SOME];

static const char *contents(const char *path) {
    int file = open(path, O_RDONLY), length = 0;
    CHECK(file >= 0);
    for (ssize_t count; (count = read(file, text + length, sizeof text - 1 - length)) > 0;)
        length += count;
    text[length] = 0;
    close(file);
    return text;
}

enum { RCHAR, WCHAR, SYSCR, SYSCW, READ, WRITE, CANCELLED, FIGURES };
static const char *const names[] = {"rchar", "wchar", "syscr", "syscw", "read_bytes", "write_bytes", "cancelled_write_bytes"};
struct io { long of[FIGURES]; };

// One read: what it takes itself is counted behind it.
static struct io io_of(const char *path) {
    struct io io;
    char figures[512], *at = figures;
    int file = open(path, O_RDONLY);
    CHECK(file >= 0);
    ssize_t count = read(file, figures, sizeof figures - 1);
    CHECK(count > 0);
    figures[count] = 0;
    close(file);
    for (int i = 0; i < FIGURES; i++) {
        char line[64];
        int bytes;
        long value;
        if (sscanf(at, "%63[^:]: %ld\n%n", line, &value, &bytes) != 2) {
            io.of[i] = -1;
            continue;
        }
        CHECK(strcmp(line, names[i]) == 0);
        io.of[i] = value;
        at += bytes;
    }
    return io;
}

// Answers the characters that reading the file itself adds: those of its text. It adds one call, too.
static long own_chars(const char *path) {
    int file = open(path, O_RDONLY);
    char some[512];
    long count = read(file, some, sizeof some);
    close(file);
    return count;
}

static struct io before, after;
static void start(void) { before = io_of("/proc/self/io"); }
static long grown(int figure) { return after.of[figure] - before.of[figure]; }
static void stop(void) { after = io_of("/proc/self/io"); }

static void calls(void) {
    int zero = open("/dev/zero", O_RDONLY), null = open("/dev/null", O_WRONLY), file = memfd_create("some", 0), pipes[2];
    CHECK(zero >= 0 && null >= 0 && file >= 0 && pipe(pipes) == 0);
    struct iovec two[2] = {{data, 100}, {data + 100, 28}};
    long own = own_chars("/proc/self/io");
    start();
    CHECK(read(zero, data, 1000) == 1000 && readv(zero, two, 2) == 128);
    CHECK(write(null, data, 700) == 700 && writev(null, two, 2) == 128);
    CHECK(pwrite(file, data, 5000, 0) == 5000 && pread(file, data, 6000, 0) == 5000);
    CHECK(write(pipes[1], data, 10) == 10 && read(pipes[0], data, 4096) == 10);
    CHECK(read(file, data, 0) == 0);
    FAILS(read(-1, data, 100), EBADF);
    FAILS(write(zero, data, 100), EBADF);
    stop();
    // The file of figures may have become longer by some digits.
    CHECK(grown(RCHAR) >= 6138 + own - 8 && grown(RCHAR) <= 6138 + own + 8);
    CHECK(grown(WCHAR) == 5838);
    CHECK(grown(SYSCR) == 6 && grown(SYSCW) == 4);
    start();
    CHECK(sendfile(null, file, NULL, 5000) == 5000);
    stop();
    CHECK(grown(WCHAR) == 5000 && grown(SYSCW) == 1 && grown(SYSCR) == 2);
    CHECK(grown(RCHAR) >= 5000 + own - 8 && grown(RCHAR) <= 5000 + own + 8);
    close(zero), close(null), close(file), close(pipes[0]), close(pipes[1]);
    done("bytes and calls");
}

static void files(void) {
    char path[64];
    snprintf(path, sizeof path, "accounting-%d", getpid());
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0);
    start();
    CHECK(write(file, data, SOME) == SOME);
    CHECK(pwrite(file, data, 100, 50) == 100);
    stop();
    CHECK(grown(WCHAR) == SOME + 100);
    int on_disk = grown(WRITE) != 0; // not on tmpfs
    CHECK(grown(WRITE) == (on_disk ? SOME : 0) && grown(CANCELLED) == 0);
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0 && labs(usage.ru_oublock - after.of[WRITE] / 512) <= PAGE / 512); // its file system may write a page between
    start();
    CHECK(ftruncate(file, 0) == 0);
    stop();
    CHECK(grown(CANCELLED) == (on_disk ? SOME : 0) && grown(WRITE) == 0);
    CHECK(write(file, data, 0) == 0 && pwrite(file, data, 3 * PAGE, 0) == 3 * PAGE && fsync(file) == 0);
    start();
    CHECK(pwrite(file, data, 2 * PAGE, 0) == 2 * PAGE);
    stop();
    CHECK(grown(WRITE) == (on_disk ? 2 * PAGE : 0));
    start();
    CHECK(pread(file, data, 3 * PAGE, 0) == 3 * PAGE);
    stop();
    CHECK(grown(READ) == 0);
    // A page that is written through a mapping is the writer's.
    CHECK(fsync(file) == 0);
    char *shown = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(shown != MAP_FAILED);
    start();
    shown[2 * PAGE] = 1;
    CHECK(msync(shown, 3 * PAGE, MS_SYNC) == 0);
    stop();
    CHECK(grown(WRITE) == (on_disk ? PAGE : 0));
    munmap(shown, 3 * PAGE);
    // Once it is not in memory it is read from the disk.
    CHECK(fsync(file) == 0 && posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0);
    start();
    CHECK(pread(file, data, 3 * PAGE, 0) == 3 * PAGE);
    stop();
    CHECK(grown(READ) == (on_disk ? 3 * PAGE : 0));
    CHECK(unlink(path) == 0);
    close(file);
    done("bytes of files");
}

static void *writes(void *unused) {
    char own[64];
    int null = open("/dev/null", O_WRONLY);
    struct io mine;
    snprintf(own, sizeof own, "/proc/self/task/%ld/io", (long)syscall(SYS_gettid));
    CHECK(write(null, data, 12345) == 12345);
    mine = io_of(own);
    CHECK(mine.of[WCHAR] == 12345 && mine.of[SYSCW] == 1 && mine.of[SYSCR] == 0);
    close(null);
    return unused;
}

static void families(void) {
    pthread_t thread;
    start();
    CHECK(pthread_create(&thread, NULL, writes, NULL) == 0 && pthread_join(thread, NULL) == 0);
    stop();
    CHECK(grown(WCHAR) == 12345 && grown(SYSCW) == 1); // a thread that has ended
    int go[2];
    CHECK(pipe(go) == 0);
    start();
    pid_t child = fork();
    if (child == 0) {
        char some;
        int null = open("/dev/null", O_WRONLY);
        _exit(write(null, data, 777) != 777 || read(go[0], &some, 1) != 1);
    }
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/io", child);
    while (io_of(path).of[WCHAR] != 777)
        sleep_ms(1);
    stop();
    CHECK(grown(WCHAR) == 0); // a child that lives
    CHECK(write(go[1], "g", 1) == 1 && status_of(child) == 0);
    stop();
    CHECK(grown(WCHAR) == 778 && grown(SYSCW) == 2); // a child that was waited for
    close(go[0]), close(go[1]);
    done("threads and children");
}

static long kib_of(const char *path, const char *key) {
    const char *found = strstr(contents(path), key);
    CHECK(found != NULL);
    return atol(found + strlen(key));
}

#define STATUS "/proc/self/status"
static long shmem(void) { return kib_of("/proc/meminfo", "\nShmem:"); }

static void resident(void) {
    long anonymous = kib_of(STATUS, "\nRssAnon:"), shared = kib_of(STATUS, "\nRssShmem:"), all = shmem();
    char *own = mmap(NULL, SOME, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(own != MAP_FAILED);
    memset(own, 1, SOME);
    CHECK(kib_of(STATUS, "\nRssAnon:") - anonymous == SOME / 1024 && kib_of(STATUS, "\nRssShmem:") == shared);
    char *others = mmap(NULL, SOME, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(others != MAP_FAILED);
    memset(others, 1, SOME);
    int number = shmget(IPC_PRIVATE, SOME, 0600), file = memfd_create("some", 0);
    char *segment = shmat(number, NULL, 0);
    CHECK(number >= 0 && segment != (char *)-1 && file >= 0);
    memset(segment, 1, SOME);
    CHECK(kib_of(STATUS, "\nRssShmem:") - shared == 2 * SOME / 1024);
    CHECK(write(file, data, SOME) == SOME);
    char *shown = mmap(NULL, SOME, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(shown != MAP_FAILED);
    for (int at = 0; at < SOME; at += PAGE)
        shown[at] = 1;
    CHECK(kib_of(STATUS, "\nRssShmem:") - shared == 3 * SOME / 1024);
    // On Linux, which others use too, this is a rough figure.
    CHECK(shmem() - all >= 3 * SOME / 1024 - 64);
    long kib = kib_of(STATUS, "\nRssAnon:") + kib_of(STATUS, "\nRssFile:") + kib_of(STATUS, "\nRssShmem:");
    CHECK(kib == kib_of(STATUS, "\nVmRSS:"));
    long pages[3];
    CHECK(sscanf(contents("/proc/self/statm"), "%ld %ld %ld", &pages[0], &pages[1], &pages[2]) == 3);
    CHECK(pages[1] * 4 == kib && pages[2] * 4 == kib_of(STATUS, "\nRssFile:") + kib_of(STATUS, "\nRssShmem:"));
    // A copy that a process writes of a file's page is its own.
    anonymous = kib_of(STATUS, "\nRssAnon:");
    int program = open("/proc/self/exe", O_RDONLY);
    char *copy = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, program, 0);
    CHECK(program >= 0 && copy != MAP_FAILED);
    copy[0] = 1;
    CHECK(kib_of(STATUS, "\nRssAnon:") - anonymous == 4);
    munmap(copy, PAGE), munmap(own, SOME), munmap(others, SOME), munmap(shown, SOME), close(file), close(program);
    CHECK(shmdt(segment) == 0 && shmctl(number, IPC_RMID, NULL) == 0);
    CHECK(kib_of(STATUS, "\nRssShmem:") == shared);
    CHECK(labs(shmem() - all) <= 64 || access("/sys/fs/cgroup/cpu.max", F_OK) != 0);
    done("kinds of memory");
}

#define STAT "/sys/fs/cgroup/memory.stat"
#define CURRENT "/sys/fs/cgroup/memory.current"
enum { QUEUES = 8, MESSAGE = 8000 };

// The kernel's part of the group's charge at rest: what it holds for writes of before, and for programs that have ended, is given back.
static long kernel_at_rest(void) {
    long now = -1, before;
    sync();
    do {
        before = now;
        usleep(50000);
        now = kib_of(STAT, "\nkernel ");
    } while (now != before);
    return now;
}

// The kernel's part of a group's charge is what neither a program nor a file has.
static void charged(void) {
    if (strstr(contents(STAT), "\nkernel ") == NULL)
        return; // an old Linux
    long kernel = kernel_at_rest(), faults = kib_of(STAT, "\npgfault "), waited = kib_of(STAT, "\npgmajfault ");
    long parts = kib_of(STAT, "anon ") + kib_of(STAT, "\nfile ") + kernel, current = atol(contents(CURRENT));
    CHECK(kernel > 0 && labs(parts - current) < 16 * PAGE + current / 64); // Linux counts in batches
    CHECK(kib_of(STAT, "\nfile_mapped ") > 0 && kib_of(STAT, "\nfile_writeback ") >= 0 && kib_of(STAT, "\nanon_thp ") >= 0);
    // Messages are the kernel's.
    int queues[QUEUES];
    struct { long kind; char text[MESSAGE]; } message = {1};
    for (int i = 0; i < QUEUES; i++) {
        CHECK((queues[i] = msgget(IPC_PRIVATE, 0600)) >= 0);
        CHECK(msgsnd(queues[i], &message, MESSAGE, 0) == 0 && msgsnd(queues[i], &message, MESSAGE, 0) == 0);
    }
    long more = kernel_at_rest() - kernel;
    if (more < QUEUES * MESSAGE || more >= 4 * QUEUES * MESSAGE) printf("%ld bytes are more\n", more);
    CHECK(more >= 2 * QUEUES * MESSAGE / 2 && more < 4 * QUEUES * MESSAGE);
    for (int i = 0; i < QUEUES; i++)
        CHECK(msgctl(queues[i], IPC_RMID, NULL) == 0);
    CHECK(kernel_at_rest() - kernel < QUEUES * MESSAGE);
    // The faults of a process that has ended stay.
    pid_t child = fork();
    if (child == 0) {
        char *own = mmap(NULL, SOME, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (int at = 0; at < SOME; at += PAGE)
            own[at] = 1;
        _exit(own == MAP_FAILED);
    }
    CHECK(status_of(child) == 0 && kib_of(STAT, "\npgfault ") - faults >= 8 && kib_of(STAT, "\npgmajfault ") >= waited);
}

// The disk of a number has read as much as was told of it before, in sectors of 512 bytes.
static void disk_has_read(unsigned major, unsigned minor, long bytes) {
    unsigned own[2];
    long reads, sectors;
    contents("/proc/diskstats");
    for (char *line = text; line && *line; line = strchr(line, '\n'), line += line != NULL)
        if (sscanf(line, "%u %u %*s %ld %*d %ld", &own[0], &own[1], &reads, &sectors) == 4 && own[0] == major && own[1] == minor) {
            CHECK(reads > 0 && sectors >= bytes / 512);
            return;
        }
    CHECK(!"the disk is in diskstats");
}

// Linux has these files at the root of its hierarchy only if it is a container's: elsewhere this is not tried.
static void groups(void) {
    if (access("/sys/fs/cgroup/io.stat", R_OK) != 0 || access("/sys/fs/cgroup/memory.current", R_OK) != 0) {
        done("groups (none here)");
        return;
    }
    long anonymous = kib_of(STAT, "anon "), shared = kib_of(STAT, "\nshmem ");
    char *own = mmap(NULL, SOME, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *others = mmap(NULL, SOME, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(own != MAP_FAILED && others != MAP_FAILED);
    memset(own, 1, SOME);
    memset(others, 1, SOME);
    CHECK(kib_of(STAT, "anon ") - anonymous >= SOME / 2 && kib_of(STAT, "\nshmem ") - shared >= SOME);
    CHECK(kib_of(STAT, "\nfile ") >= kib_of(STAT, "\nshmem "));
    munmap(own, SOME), munmap(others, SOME);
    charged();
    contents("/sys/fs/cgroup/io.stat");
    unsigned major, minor;
    long bytes[2];
    if (*text) {
        CHECK(sscanf(text, "%u:%u rbytes=%ld wbytes=%ld rios=", &major, &minor, &bytes[0], &bytes[1]) == 4 && bytes[0] > 0);
        disk_has_read(major, minor, bytes[0]);
    }
    done("groups");
}

int main(void) {
    memset(data, 'd', sizeof data);
    calls();
    files();
    families();
    resident();
    groups();
    puts("ok accounting_files");
}
