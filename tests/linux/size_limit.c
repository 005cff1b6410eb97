// RLIMIT_FSIZE holds for each way to write a file (setrlimit(2), write(2)); RLIMIT_CPU ends who computes too long.
#include "check.h"
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>

static volatile int signals;
static void count(int signal) { signals++; }

static int file(const char *name, int flags) {
    int made = open(name, O_CREAT | O_RDWR | flags, 0600);
    CHECK(made >= 0);
    return made;
}

static long size(int of) {
    struct stat seen;
    CHECK(fstat(of, &seen) == 0);
    return seen.st_size;
}

static void limit_of(int resource, long soft, long hard) {
    struct rlimit limit = { soft, hard };
    CHECK(setrlimit(resource, &limit) == 0);
}

static void writes(void) {
    static char data[4096];
    signal(SIGXFSZ, count);
    int old = file("old", 0), plain = file("plain", 0), end = file("end", O_APPEND), many = file("many", 0);
    CHECK(write(old, data, 4096) == 4096 && write(old, data, 4096) == 4096);
    limit_of(RLIMIT_FSIZE, 5000, 6000);
    // The part that fits is written, and what lies behind the limit is refused with a signal.
    CHECK(write(plain, data, 4096) == 4096);
    CHECK(write(plain, data, 4096) == 904 && size(plain) == 5000 && signals == 0);
    FAILS(write(plain, data, 1), EFBIG);
    CHECK(signals == 1);
    CHECK(write(plain, data, 0) == 0);
    FAILS(pwrite(plain, data, 10, 5000), EFBIG);
    CHECK(pwrite(plain, data, 10, 4990) == 10 && signals == 2);
    CHECK(write(end, data, 4096) == 4096 && write(end, data, 4096) == 904);
    FAILS(write(end, data, 1), EFBIG);
    struct iovec parts[2] = { { data, 4096 }, { data, 4096 } };
    CHECK(writev(many, parts, 2) == 5000);
    FAILS(writev(many, parts, 2), EFBIG);
    // Writing over what a longer file has behind the limit is refused as well.
    FAILS(pwrite(old, data, 10, 6000), EFBIG);
    signals = 0;
    FAILS(ftruncate(plain, 5001), EFBIG);
    FAILS(truncate("plain", 5001), EFBIG);
    CHECK(signals == 2);
    CHECK(ftruncate(old, 7000) == 0 && ftruncate(plain, 5000) == 0);
    int copy = file("copy", 0), sent = file("sent", 0);
    off_t from = 0;
    CHECK(sendfile(sent, old, &from, 7000) == 5000);
    from = 0;
    FAILS(sendfile(sent, old, &from, 7000), EFBIG);
    loff_t in = 0, out = 0;
    CHECK(syscall(SYS_copy_file_range, old, &in, copy, &out, 7000, 0) == 5000);
    FAILS(syscall(SYS_copy_file_range, old, &in, copy, &out, 7000, 0), EFBIG);
    int pipe_ends[2];
    CHECK(pipe(pipe_ends) == 0 && write(pipe_ends[1], data, 100) == 100);
    // Pipes have no size that counts.
    lseek(sent, 4950, SEEK_SET);
    CHECK(splice(pipe_ends[0], NULL, sent, NULL, 100, 0) == 50);
    limit_of(RLIMIT_FSIZE, 6000, 6000);
    CHECK(write(plain, data, 4096) == 1000);
}

static void ends_by_signal(void) {
    pid_t child = fork();
    if (child == 0) {
        signal(SIGXFSZ, SIG_DFL);
        limit_of(RLIMIT_FSIZE, 10, 10);
        int some = file("ended", O_TRUNC);
        if (write(some, "0123456789", 10) == 10)
            write(some, "x", 1);
        _exit(7);
    }
    int status = status_of(child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
}

static void computes(void) {
    // The soft limit sends SIGXCPU, the hard one kills. Linux counts ticks for it, and may be early if a hypervisor takes time away.
    pid_t child = fork();
    if (child == 0) {
        signals = 0;
        signal(SIGXCPU, count);
        limit_of(RLIMIT_CPU, 1, 2);
        while (signals == 0) {}
        struct rusage used;
        getrusage(RUSAGE_SELF, &used);
        long ms = (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000 + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1000;
        if (ms < 500)
            _exit(5);
        for (;;) {}
    }
    int status = status_of(child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

int main(void) {
    enter_directory();
    writes();
    ends_by_signal();
    computes();
    done("size_limit");
    return 0;
}
