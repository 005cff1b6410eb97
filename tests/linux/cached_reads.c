/* Reading what is in memory: any offset, length and place, into pages that are shared, huge, not there or not writable. */
#include "check.h"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define BYTES (300 * 1024 + 77)
#define PAGE 4096L

static unsigned char value(size_t at) { return (unsigned char)(at * 131 + (at >> 8) * 7 + (at >> 16)); }

static unsigned random_state = 12345;
static unsigned random_below(unsigned limit) {
    random_state = random_state * 1103515245 + 12345;
    return (random_state >> 8) % limit;
}

static int file;
/* The compiler is not to know that nothing is there. */
static void *volatile nowhere = (void *)8;

static void check(const unsigned char *buffer, size_t offset, ssize_t count) {
    for (ssize_t i = 0; i < count; i++)
        if (buffer[i] != value(offset + i)) {
            dprintf(1, "FAILED byte %zd of a read at %zu\n", i, offset);
            _exit(1);
        }
}

/* Reads at random into `area`, with a byte before and behind that must stay. */
static void read_into(unsigned char *area, size_t area_bytes, int rounds) {
    while (rounds--) {
        size_t bytes = random_below(3) ? random_below(area_bytes - 2 * PAGE) : random_below(300);
        size_t offset = random_below(BYTES + 1000);
        unsigned char *to = area + 1 + random_below(2 * PAGE - 2);
        to[-1] = 0xa5, to[bytes] = 0x5a;
        ssize_t wanted = offset >= BYTES ? 0 : (ssize_t)(bytes < BYTES - offset ? bytes : BYTES - offset);
        CHECK(pread(file, to, bytes, offset) == wanted);
        check(to, offset, wanted);
        CHECK(to[-1] == 0xa5 && to[bytes] == 0x5a);
        CHECK(lseek(file, offset, SEEK_SET) == (off_t)offset && read(file, to, bytes) == wanted);
        check(to, offset, wanted);
        CHECK(to[-1] == 0xa5 && to[bytes] == 0x5a && lseek(file, 0, SEEK_CUR) == (off_t)(offset + wanted));
    }
}

/* A call keeps vector registers, with any way of copying in the kernel. */
static void registers_are_kept(unsigned char *area) {
    unsigned char before[256], after[256];
    if (!__builtin_cpu_supports("avx")) return;
    for (size_t bytes = 1; bytes <= 64 * 1024; bytes = bytes * 3 + 1) {
        for (int i = 0; i < 256; i++) before[i] = random_below(256);
        long count = SYS_pread64;
        register long offset asm("r10") = 3;
        asm volatile("vmovdqu (%1), %%ymm0; vmovdqu 32(%1), %%ymm1; vmovdqu 64(%1), %%ymm2; vmovdqu 96(%1), %%ymm3;"
                     "vmovdqu 128(%1), %%ymm4; vmovdqu 160(%1), %%ymm5; vmovdqu 192(%1), %%ymm6; vmovdqu 224(%1), %%ymm7;"
                     "syscall;"
                     "vmovdqu %%ymm0, (%2); vmovdqu %%ymm1, 32(%2); vmovdqu %%ymm2, 64(%2); vmovdqu %%ymm3, 96(%2);"
                     "vmovdqu %%ymm4, 128(%2); vmovdqu %%ymm5, 160(%2); vmovdqu %%ymm6, 192(%2); vmovdqu %%ymm7, 224(%2)"
                     : "+a"(count) : "r"(before), "r"(after), "D"((long)file), "S"(area + 5), "d"(bytes), "r"(offset)
                     : "rcx", "r11", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7");
        CHECK(count == (long)bytes && !memcmp(before, after, sizeof before));
        check(area + 5, 3, count);
    }
}

static void *shared_position(void *sum) {
    unsigned char buffer[1000];
    for (ssize_t count; (count = read(file, buffer, sizeof buffer)) > 0;) *(size_t *)sum += count;
    return NULL;
}

static void in(const char *path) {
    file = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600);
    CHECK(file >= 0);
    unsigned char *all = malloc(BYTES);
    for (size_t i = 0; i < BYTES; i++) all[i] = value(i);
    for (size_t at = 0; at < BYTES;) {
        ssize_t count = write(file, all + at, BYTES - at);
        CHECK(count > 0);
        at += count;
    }
    size_t bytes = 80 * PAGE;
    unsigned char *area = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(area != MAP_FAILED);
    read_into(area, bytes, 150);
    registers_are_kept(area);
    pid_t child = fork();
    if (child == 0) {
        read_into(area, bytes, 60);
        _exit(0);
    }
    unsigned char before[PAGE];
    memcpy(before, area + 5 * PAGE, PAGE);
    CHECK(status_of(child) == 0 && !memcmp(before, area + 5 * PAGE, PAGE));
    read_into(area, bytes, 30);
    unsigned char *large = mmap(NULL, 6 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(large != MAP_FAILED);
    madvise(large, 6 << 20, MADV_HUGEPAGE);
    memset(large, 1, 6 << 20);
    read_into(large + (2 << 20) - 40 * PAGE + 8, bytes, 60);

    /* A page that cannot be written ends the read there. */
    CHECK(mprotect(area + 4 * PAGE, PAGE, PROT_READ) == 0);
    CHECK(pread(file, area + 3 * PAGE, 3 * PAGE, 0) == PAGE);
    check(area + 3 * PAGE, 0, PAGE);
    FAILS(pread(file, area + 4 * PAGE, 100, 0), EFAULT);
    CHECK(munmap(area + 4 * PAGE, PAGE) == 0 && pread(file, area + 3 * PAGE, 3 * PAGE, 4) == PAGE);
    check(area + 3 * PAGE, 4, PAGE);
    FAILS(pread(file, (void *)-4096L, 100, 0), EFAULT);
    CHECK(pread(file, NULL, 0, 0) == 0 && pread(file, nowhere, 100, BYTES) == 0);
    FAILS(pread(file, area, 10, -1), EINVAL);

    /* Holes are zeroes; what is written is read at once. */
    CHECK(ftruncate(file, BYTES + 3 * PAGE) == 0 && pread(file, area, PAGE, BYTES + PAGE) == PAGE);
    for (int i = 0; i < PAGE; i++) CHECK(area[i] == 0);
    CHECK(pwrite(file, "new", 3, 10) == 3 && pread(file, area, 5, 9) == 5 && !memcmp(area + 1, "new", 3) && area[0] == value(9));
    CHECK(ftruncate(file, 11) == 0 && pread(file, area, 100, 0) == 11 && pread(file, area, 100, 11) == 0);
    CHECK(ftruncate(file, BYTES) == 0);

    /* Threads that share a position read each byte once. */
    size_t sums[3] = {0};
    pthread_t threads[3];
    CHECK(lseek(file, 0, SEEK_SET) == 0);
    for (int i = 0; i < 3; i++) CHECK(pthread_create(&threads[i], NULL, shared_position, &sums[i]) == 0);
    for (int i = 0; i < 3; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    if (sums[0] + sums[1] + sums[2] != BYTES) dprintf(1, "%zu + %zu + %zu bytes, not %d\n", sums[0], sums[1], sums[2], BYTES);
    CHECK(sums[0] + sums[1] + sums[2] == BYTES);

    /* Into a mapping of the file itself. */
    unsigned char *mapped = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(mapped != MAP_FAILED && pwrite(file, all, 4 * PAGE, 0) == 4 * PAGE);
    mapped[2 * PAGE] = 1;
    CHECK(pread(file, mapped + 2 * PAGE, PAGE, 100) == PAGE);
    check(mapped + 2 * PAGE, 100, PAGE);
    CHECK(unlink(path) == 0 && pread(file, area, 50, 2 * PAGE) == 50);
    check(area, 100, 50);
    int writer = open("/dev/null", O_WRONLY);
    FAILS(read(writer, area, 1), EBADF);
    CHECK(close(file) == 0 && close(writer) == 0 && munmap(mapped, 4 * PAGE) == 0 && munmap(large, 6 << 20) == 0);
    munmap(area, bytes);
    free(all);
}

int main(void) {
    in("/tmp/cached-reads");
    in("/dev/shm/cached-reads");
    if (access("/opt", W_OK) == 0) in("/opt/cached-reads");
    done("cached_reads");
    return 0;
}
