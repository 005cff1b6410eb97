/* O_DIRECT: what must be aligned, what the end does, and that it agrees with plain reads and writes, mappings and forks. */
#include "check.h"
#include <linux/aio_abi.h>
#include <linux/stat.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>

enum { FILE_BYTES = 1 << 20, BUFFER_BYTES = 2 << 20 };
static char *memory, *other;
static unsigned char wanted[FILE_BYTES * 2];
static int plain, direct;

static char *pages(size_t bytes) {
    char *at = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

static void fill(void *at, size_t bytes, int seed) {
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)at)[i] = i * 7 + i / 512 * 13 + seed;
}

/* Writes past the cache, and notes it. */
static void put(size_t at, size_t bytes, int seed) {
    fill(memory, bytes, seed);
    CHECK(pwrite(direct, memory, bytes, at) == (ssize_t)bytes);
    memcpy(wanted + at, memory, bytes);
}

/* Both ways of reading show what was written. */
static void same(size_t at, size_t bytes) {
    memset(memory, 0x55, bytes);
    CHECK(pread(direct, memory, bytes, at) == (ssize_t)bytes && !memcmp(memory, wanted + at, bytes));
    CHECK(pread(plain, other, bytes, at) == (ssize_t)bytes && !memcmp(other, wanted + at, bytes));
}

static void alignment(void) {
    FAILS(pread(direct, memory, 100, 0), EINVAL);
    FAILS(pread(direct, memory, 4096, 100), EINVAL);
    FAILS(pread(direct, memory + 64, 4096, 0), EINVAL);
    FAILS(pread(direct, (void *)8192, 100, 0), EINVAL);
    FAILS(pread(direct, (void *)8192, 512, 0), EFAULT);
    FAILS(pwrite(direct, memory, 100, 0), EINVAL);
    FAILS(pwrite(direct, memory, 512, 100), EINVAL);
    FAILS(pwrite(direct, memory + 64, 4096, 0), EINVAL);
    FAILS(pwrite(direct, (void *)8192, 512, 0), EFAULT);
    CHECK(pread(direct, memory, 0, 100) == 0 && pwrite(direct, memory, 0, 100) == 0);
    CHECK(pread(direct, memory, 512, 512) == 512 && !memcmp(memory, wanted + 512, 512));
    CHECK(pread(direct, memory + 512, 4096, 1024) == 4096 && !memcmp(memory + 512, wanted + 1024, 4096));
    struct statx found;
    if (syscall(SYS_statx, AT_FDCWD, "file", 0, STATX_BASIC_STATS | STATX_DIOALIGN, &found) == 0 && found.stx_mask & STATX_DIOALIGN)
        CHECK(found.stx_dio_mem_align == 512 && found.stx_dio_offset_align == 512 && (found.stx_mask & STATX_BASIC_STATS) == STATX_BASIC_STATS);
}

static void end_of_file(void) {
    int fd = open("short", O_RDWR | O_CREAT | O_DIRECT, 0600);
    CHECK(fd >= 0);
    int maker = open("short", O_RDWR);
    CHECK(write(maker, wanted, 10000) == 10000);
    memset(memory, 0x55, 8192);
    CHECK(pread(fd, memory, 8192, 8192) == 1808 && !memcmp(memory, wanted + 8192, 1808));
    CHECK(pread(fd, memory, 512, 9728) == 272);
    FAILS(pread(fd, memory, 272, 9728), EINVAL);
    CHECK(pread(fd, memory, 512, 10240) == 0 && pread(fd, memory, 512, 1 << 20) == 0);
    CHECK(pread(fd, memory, 100, 20000) == 0 && pread(fd, memory + 1, 512, 20000) == 0 && pread(fd, memory, 512, 10001) == 0);
    CHECK(pread(fd, (void *)8192, 512, 20480) == 0);
    /* A write behind the end makes a hole, and the file longer. */
    struct stat st;
    fill(memory, 4096, 1);
    CHECK(pwrite(fd, memory, 512, 9728) == 512 && fstat(fd, &st) == 0 && st.st_size == 10240);
    CHECK(pwrite(fd, memory, 4096, 40960) == 4096 && fstat(fd, &st) == 0 && st.st_size == 45056);
    CHECK(pread(maker, other, 40960, 4096) == 40960 && !memcmp(other, wanted + 4096, 5632) && !memcmp(other + 5632, memory, 512));
    for (int i = 6144; i < 36864; i++)
        CHECK(other[i] == 0);
    CHECK(!memcmp(other + 36864, memory, 4096));
    CHECK(pread(fd, memory, 4096, 20480) == 4096 && memory[0] == 0 && memory[4095] == 0);
    close(maker);
    close(fd);
}

static void appends(void) {
    int fd = open("log", O_RDWR | O_CREAT | O_DIRECT | O_APPEND, 0600);
    CHECK(fd >= 0);
    fill(memory, 8192, 5);
    CHECK(write(fd, memory, 4096) == 4096 && write(fd, memory + 4096, 512) == 512 && lseek(fd, 0, SEEK_CUR) == 4608);
    CHECK(pwrite(fd, memory + 4608, 512, 0) == 512);
    FAILS(write(fd, memory, 100), EINVAL);
    CHECK(pread(fd, other, 8192, 0) == 5120 && !memcmp(other, memory, 5120));
    CHECK(ftruncate(fd, 5000) == 0);
    FAILS(write(fd, memory, 512), EINVAL);
    close(fd);
}

static void vectors(void) {
    struct iovec list[3] = {{other, 512}, {other + 8192, 1024}, {other + 65536, 66048}};
    CHECK(preadv(direct, list, 3, 1536) == 67584);
    CHECK(!memcmp(other, wanted + 1536, 512) && !memcmp(other + 8192, wanted + 2048, 1024) && !memcmp(other + 65536, wanted + 3072, 66048));
    fill(other, 131072 + 4096, 77);
    CHECK(pwritev(direct, list, 3, 4096) == 67584);
    memcpy(wanted + 4096, other, 512);
    memcpy(wanted + 4608, other + 8192, 1024);
    memcpy(wanted + 5632, other + 65536, 66048);
    same(0, 131072);
    list[1].iov_len = 100;
    FAILS(preadv(direct, list, 3, 0), EINVAL);
    FAILS(pwritev(direct, list, 3, 0), EINVAL);
    list[1] = (struct iovec){other + 1, 0};
    list[2].iov_len = 512;
    CHECK(preadv(direct, list, 3, 0) == 1024);
    /* The position moves, and a large call is done in one. */
    CHECK(lseek(direct, 4096, SEEK_SET) == 4096 && read(direct, memory, 8192) == 8192 && lseek(direct, 0, SEEK_CUR) == 12288);
    CHECK(!memcmp(memory, wanted + 4096, 8192));
    put(12288, FILE_BYTES - 12288, 42);
    same(0, FILE_BYTES);
    /* Memory of which a part is not there. */
    char *edge = pages(16384);
    CHECK(munmap(edge + 8192, 8192) == 0);
    FAILS(pread(direct, edge, 16384, 0), EFAULT);
    FAILS(pwrite(direct, edge, 16384, 0), EFAULT);
    same(0, 65536);
    CHECK(munmap(edge, 8192) == 0);
}

/* Two descriptors of one file, one of them plain. */
static void coherence(void) {
    for (int round = 0; round < 40; round++) {
        size_t at = round * 5 % 64 * 4096 + round % 8 * 512, bytes = (1 + round % 40) * 512;
        fill(other, bytes + 100, round);
        CHECK(pwrite(plain, other, bytes + 100, at + 50) == (ssize_t)bytes + 100);
        memcpy(wanted + at + 50, other, bytes + 100);
        same(at, 32768);
        put(at, bytes, round + 100);
        same(at, 32768);
    }
    CHECK(fcntl(plain, F_SETFL, O_DIRECT) == 0 && fcntl(plain, F_GETFL) & O_DIRECT);
    FAILS(pread(plain, other, 100, 0), EINVAL);
    CHECK(fcntl(plain, F_SETFL, 0) == 0 && pread(plain, other, 100, 0) == 100);
}

static void mappings(void) {
    char *map = mmap(0, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, plain, 0);
    CHECK(map != MAP_FAILED && !memcmp(map, wanted, 65536));
    put(4096, 12288, 3);
    CHECK(!memcmp(map + 4096, wanted + 4096, 12288));
    for (int round = 0; round < 3; round++) {
        map[5000 + round] = wanted[5000 + round] = 99 + round;
        same(0, 32768);
        put(4096 + 4096 * round, 512, round);
        CHECK(!memcmp(map, wanted, 65536));
    }
    /* A mapping of the file itself as memory, in both directions. */
    CHECK(pread(direct, map + 32768, 8192, 0) == 8192 && !memcmp(map + 32768, wanted, 8192));
    memcpy(wanted + 32768, wanted, 8192);
    same(0, 65536);
    CHECK(pwrite(direct, map + 32768, 8192, 65536) == 8192);
    memcpy(wanted + 65536, wanted + 32768, 8192);
    same(0, 131072);
    CHECK(msync(map, FILE_BYTES, MS_SYNC) == 0 && munmap(map, FILE_BYTES) == 0);
    same(0, 131072);
    /* Private memory of a file, and memory that may only be read. */
    map = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE, plain, 0);
    CHECK(pread(direct, map, 8192, 16384) == 8192 && !memcmp(map, wanted + 16384, 8192) && !memcmp(map + 8192, wanted + 8192, 8192));
    CHECK(mprotect(map, 65536, PROT_READ) == 0);
    FAILS(pread(direct, map, 512, 0), EFAULT);
    CHECK(pwrite(direct, map, 8192, 131072) == 8192);
    memcpy(wanted + 131072, wanted + 16384, 8192);
    same(131072, 8192);
    CHECK(munmap(map, 65536) == 0);
}

static volatile int stop;
static char *target;
enum { TARGET_BYTES = 65536 };

/* Takes pages away and writes them back, again and again. */
static void *reclaimer(void *unused) {
    for (int round = 0; !stop; round++) {
        madvise(target, TARGET_BYTES, MADV_PAGEOUT);
        if (round % 4 == 0)
            CHECK(msync(target, TARGET_BYTES, MS_SYNC) == 0);
    }
    return unused;
}

/* Another file's mapping as memory, while its pages are written back and go. */
static void mapped_targets(void) {
    int file = open("target", O_RDWR | O_CREAT, 0600), past = open("target", O_RDWR | O_DIRECT);
    CHECK(file >= 0 && past >= 0 && pwrite(file, wanted, TARGET_BYTES, 0) == TARGET_BYTES);
    target = mmap(0, TARGET_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(target != MAP_FAILED);
    static char is[TARGET_BYTES];
    memcpy(is, target, TARGET_BYTES);
    pthread_t thread;
    CHECK(pthread_create(&thread, 0, reclaimer, 0) == 0);
    for (int round = 0; round < 200; round++) {
        size_t to = round * 7 % 12 * 4096 + round % 8 * 512, bytes = (1 + round % 16) * 512, from = round % 50 * 512;
        CHECK(pread(direct, target + to, bytes, from) == (ssize_t)bytes);
        memcpy(is + to, wanted + from, bytes);
        target[round * 300] = is[round * 300] = round;
        CHECK(!memcmp(target, is, TARGET_BYTES));
        if (round % 10 == 0) {
            put(131072, 4096, round);
            CHECK(pwrite(direct, target + to, bytes, 131072) == (ssize_t)bytes);
            memcpy(wanted + 131072, is + to, bytes);
            same(131072, 8192);
        }
    }
    stop = 1;
    CHECK(pthread_join(thread, 0) == 0);
    stop = 0;
    CHECK(msync(target, TARGET_BYTES, MS_SYNC) == 0);
    CHECK(pread(past, other, TARGET_BYTES, 0) == TARGET_BYTES && !memcmp(other, is, TARGET_BYTES));
    CHECK(munmap(target, TARGET_BYTES) == 0 && close(file) == 0 && close(past) == 0);
}

static void *forker(void *unused) {
    while (!stop) {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        CHECK(status_of(child) == 0);
    }
    return unused;
}

static void *neighbour(void *page) {
    for (unsigned i = 0; !stop; i++)
        ((volatile unsigned *)page)[i % 100] = i;
    return page;
}

/* Others fork and write beside the buffer while it is read into: the reader misses nothing. */
static void forks(void) {
    pthread_t threads[2];
    char *page = pages(4096);
    CHECK(pthread_create(&threads[0], 0, forker, 0) == 0 && pthread_create(&threads[1], 0, neighbour, page) == 0);
    for (int round = 0; round < 300; round++) {
        size_t at = round % 100 * 4096;
        memset(page + 2048, 0x55, 2048);
        CHECK(pread(direct, page + 2048, 2048, at) == 2048 && !memcmp(page + 2048, wanted + at, 2048));
        memset(memory, 0x55, 16384);
        CHECK(pread(direct, memory, 16384, at) == 16384 && !memcmp(memory, wanted + at, 16384));
    }
    stop = 1;
    CHECK(pthread_join(threads[0], 0) == 0 && pthread_join(threads[1], 0) == 0);
    CHECK(munmap(page, 4096) == 0);
    /* A child has its parent's buffer as it was, and may read into its own. */
    fill(memory, 4096, 9);
    memcpy(other, memory, 4096);
    pid_t child = fork();
    if (child == 0) {
        CHECK(pread(direct, memory, 4096, 4096) == 4096 && !memcmp(memory, wanted + 4096, 4096));
        _exit(0);
    }
    CHECK(status_of(child) == 0 && !memcmp(memory, other, 4096));
}

static void *gone(void *buffer) {
    pread(direct, buffer, 65536, 0);
    return 0;
}

/* Memory that is unmapped, and programs that are killed, while the device is at it. */
static void endings(void) {
    for (int round = 0; round < 50; round++) {
        char *buffer = pages(65536);
        pthread_t thread;
        CHECK(pthread_create(&thread, 0, gone, buffer) == 0);
        CHECK(munmap(buffer, 65536) == 0 && pthread_join(thread, 0) == 0);
    }
    for (int round = 0; round < 30; round++) {
        pid_t child = fork();
        if (child == 0)
            for (;;)
                CHECK(pread(direct, memory, 65536, 0) == 65536 && pwrite(direct, memory, 65536, 0) == 65536);
        sleep_ms(round % 5);
        CHECK(kill(child, SIGKILL) == 0);
        status_of(child);
    }
    same(0, 131072);
}

static void huge(void) {
    char *buffer = mmap(0, 8 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(buffer, 1, 8 << 20);
    char *at = buffer + (3 << 20) + 512;
    CHECK(pread(direct, at, 131072, 4096) == 131072 && !memcmp(at, wanted + 4096, 131072) && at[-1] == 1 && at[131072] == 1);
    fill(at, 131072, 21);
    CHECK(pwrite(direct, at, 131072, 8192) == 131072);
    memcpy(wanted + 8192, at, 131072);
    CHECK(munmap(buffer + (3 << 20), 4096) == 0 && munmap(buffer, 8 << 20) == 0);
    same(0, 262144);
}

static void asynchronous(void) {
    aio_context_t context = 0;
    if (syscall(SYS_io_setup, 32, &context) == -1)
        return;
    struct iocb wishes[16], *list[16];
    struct io_event events[16];
    for (int i = 0; i < 16; i++) {
        wishes[i] = (struct iocb){.aio_lio_opcode = IOCB_CMD_PREAD, .aio_fildes = direct, .aio_buf = (uintptr_t)(memory + i * 8192), .aio_nbytes = 8192, .aio_offset = (15 - i) * 8192};
        list[i] = &wishes[i];
    }
    CHECK(syscall(SYS_io_submit, context, 16, list) == 16 && syscall(SYS_io_getevents, context, 16, 16, events, 0) == 16);
    for (int i = 0; i < 16; i++)
        CHECK(events[i].res == 8192 && !memcmp(memory + i * 8192, wanted + (15 - i) * 8192, 8192));
    for (int i = 0; i < 16; i++)
        wishes[i].aio_lio_opcode = IOCB_CMD_PWRITE;
    CHECK(syscall(SYS_io_submit, context, 16, list) == 16 && syscall(SYS_io_getevents, context, 16, 16, events, 0) == 16);
    for (int i = 0; i < 16; i++)
        CHECK(events[i].res == 8192);
    same(0, 131072);
    wishes[0].aio_nbytes = 100;
    CHECK(syscall(SYS_io_submit, context, 1, list) == 1 && syscall(SYS_io_getevents, context, 1, 1, events, 0) == 1 && events[0].res == -EINVAL);
    CHECK(syscall(SYS_io_destroy, context) == 0);
}

static int is_memory(void) {
    struct statfs where;
    CHECK(statfs(".", &where) == 0);
    return where.f_type == 0x01021994;
}

/* A file without such a way refuses the flag, at open and later; pipes take it for something else. */
static void refusals(void) {
    static const struct { const char *path; int flags; } refused[] = {{"/proc/version", 0}, {"/proc", O_DIRECTORY}, {"/", O_DIRECTORY}, {"/dev/null", O_RDWR}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        CHECK(open(refused[i].path, refused[i].flags | O_DIRECT) < 0 && errno == EINVAL);
        int name = open(refused[i].path, refused[i].flags | O_DIRECT | O_PATH), file = open(refused[i].path, refused[i].flags);
        CHECK(name >= 0 && file >= 0);
        CHECK(fcntl(file, F_SETFL, O_DIRECT) < 0 && errno == EINVAL && !(fcntl(file, F_GETFL) & O_DIRECT));
        CHECK(!fcntl(file, F_SETFL, O_NONBLOCK));
        close(name), close(file);
    }
    int pair[2];
    CHECK(!pipe(pair) && !fcntl(pair[1], F_SETFL, O_DIRECT) && fcntl(pair[1], F_GETFL) & O_DIRECT);
    close(pair[0]), close(pair[1]);
}

/* A file system without a disk takes what is not aligned, too. */
static void in_memory(void) {
    int fd = open("memory", O_RDWR | O_CREAT | O_DIRECT, 0600);
    if (fd == -1)
        return;
    for (int round = 0; round < 3; round++) {
        CHECK(pwrite(fd, "abcdef", 6, 3) == 6 && pread(fd, memory, 4096, 4) == 5 && !memcmp(memory, "bcdef", 5));
        CHECK(fcntl(fd, F_GETFL) & O_DIRECT);
    }
    int later = open("memory", O_RDWR);
    CHECK(fcntl(later, F_SETFL, O_DIRECT) == 0 && fcntl(later, F_GETFL) & O_DIRECT);
    CHECK(pread(later, memory + 1, 100, 4) == 5 && pwrite(later, "x", 1, 3) == 1 && pread(fd, memory, 1, 3) == 1 && memory[0] == 'x');
    CHECK(close(fd) == 0 && close(later) == 0);
}

int main(void) {
    memory = pages(BUFFER_BYTES);
    other = pages(BUFFER_BYTES);
    enter_directory();
    if (is_memory()) {
        in_memory();
        char names[2][32] = {"/var/tmp/gyre-test-XXXXXX", "/gyre-test-XXXXXX"};
        CHECK((mkdtemp(names[0]) && chdir(names[0]) == 0) || (mkdtemp(names[1]) && chdir(names[1]) == 0));
    }
    direct = open("file", O_RDWR | O_CREAT | O_DIRECT, 0600);
    if (direct == -1 || is_memory()) {
        done("direct (no disk here)");
        return 0;
    }
    plain = open("file", O_RDWR);
    CHECK(plain >= 0 && fcntl(direct, F_GETFL) & O_DIRECT);
    refusals();
    put(0, FILE_BYTES, 0);
    same(0, FILE_BYTES);
    put(0, FILE_BYTES, 1);
    same(0, FILE_BYTES);
    alignment();
    end_of_file();
    appends();
    vectors();
    coherence();
    mappings();
    mapped_targets();
    huge();
    forks();
    asynchronous();
    endings();
    CHECK(fsync(direct) == 0);
    done("direct");
    return 0;
}
