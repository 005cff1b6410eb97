/* Numbers at the ends of their ranges, one by one: what Linux answers is the answer. Each of them once stopped the machine, or could. */
#include "check.h"
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>

#define PAGE 4096UL
#define LAST INT64_MAX
#define KTIME_MAX_S 9223372036L
#define KTIME_MAX_NS 854775807L

static int new_file(size_t bytes) {
    /* In memory, because a file there may be as long as there are numbers. */
    char shared[] = "/dev/shm/extremes-XXXXXX", other[] = "/tmp/extremes-XXXXXX", *name = access("/dev/shm", W_OK) ? other : shared;
    int file = mkstemp(name);
    CHECK(file >= 0 && unlink(name) == 0 && ftruncate(file, bytes) == 0);
    return file;
}

/* A timer whose next period ends beyond the last moment that clocks know. */
static void far_timers(void) {
    int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec wish = {.it_interval = {INT64_MAX, 999999999}, .it_value = {0, 1}}, shown;
    uint64_t count = 0;
    CHECK(timer >= 0 && timerfd_settime(timer, 0, &wish, NULL) == 0);
    CHECK(read(timer, &count, sizeof count) == sizeof count && count == 1);
    CHECK(timerfd_gettime(timer, &shown) == 0);
    CHECK(shown.it_interval.tv_sec == KTIME_MAX_S && shown.it_interval.tv_nsec == KTIME_MAX_NS);
    CHECK(shown.it_value.tv_sec > KTIME_MAX_S - 1000000000L);
    wish.it_value = (struct timespec){INT64_MAX, 0};
    CHECK(timerfd_settime(timer, TFD_TIMER_ABSTIME, &wish, NULL) == 0 && timerfd_settime(timer, 0, &wish, &shown) == 0);
    CHECK(shown.it_value.tv_sec > KTIME_MAX_S - 1000000000L);
    CHECK(timerfd_gettime(timer, &shown) == 0 && shown.it_value.tv_sec > KTIME_MAX_S - 1000000000L);
    const struct timespec wrong[] = {{-1, 0}, {0, -1}, {0, 1000000000}, {INT64_MIN, 0}, {0, INT64_MAX}, {0, INT64_MIN}};
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        wish = (struct itimerspec){.it_value = wrong[i]};
        FAILS(timerfd_settime(timer, 0, &wish, NULL), EINVAL);
        wish = (struct itimerspec){.it_interval = wrong[i], .it_value = {1, 0}};
        FAILS(timerfd_settime(timer, 0, &wish, NULL), EINVAL);
    }
    close(timer);
}

/* A mapping that grows beyond the last byte that a file can have: it is there, and none of its pages are. */
static void far_mappings(void) {
    int file = new_file(PAGE);
    for (unsigned i = 0; i < 3; i++) {
        unsigned long at[] = {-2 * PAGE, 1UL << 63, (1UL << 63) - PAGE};
        errno = 0;
        CHECK(syscall(SYS_mmap, NULL, 2 * PAGE, PROT_READ, MAP_SHARED, file, at[i]) == -1 && errno == EOVERFLOW);
    }
    FAILS(syscall(SYS_mmap, NULL, -PAGE, PROT_READ, MAP_SHARED, file, 0UL), ENOMEM);
    FAILS(syscall(SYS_mmap, NULL, UINT64_MAX, PROT_READ, MAP_SHARED, file, 0UL), ENOMEM);
    FAILS(syscall(SYS_mmap, NULL, PAGE, PROT_READ, MAP_SHARED, file, 1UL), EINVAL);
    FAILS(syscall(SYS_mmap, -PAGE, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0UL), ENOMEM);
    char *any = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, file, -2 * PAGE);
    CHECK(any != MAP_FAILED && munmap(any, PAGE) == 0);
    char *area = (void *)syscall(SYS_mmap, NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, (1UL << 63) - 2 * PAGE);
    CHECK(area != MAP_FAILED);
    char *grown = mremap(area, PAGE, 4 * PAGE, MREMAP_MAYMOVE);
    CHECK(grown != MAP_FAILED);
    /* Linux looks at the page and answers EFAULT; whom to wake can be known without. */
    long woken = syscall(SYS_futex, grown + 2 * PAGE, FUTEX_WAKE, 1, NULL, NULL, 0);
    CHECK(woken == 0 || (woken == -1 && errno == EFAULT));
    FAILS(syscall(SYS_futex, grown + 2 * PAGE, FUTEX_WAIT, 0, &(struct timespec){0, 1}, NULL, 0), EFAULT);
    CHECK(munmap(grown, 2 * PAGE) == 0);
    char line[512], wanted[64];
    snprintf(wanted, sizeof wanted, "%lx-%lx rw-s 8000000000000000", (long)grown + 2 * PAGE, (long)grown + 4 * PAGE);
    FILE *maps = fopen("/proc/self/maps", "r");
    int found = 0;
    while (fgets(line, sizeof line, maps)) found += strncmp(line, wanted, strlen(wanted)) == 0;
    CHECK(found == 1 && fclose(maps) == 0);
    FAILS(mremap(grown + 2 * PAGE, PAGE, SIZE_MAX - PAGE, MREMAP_MAYMOVE), EINVAL);
    CHECK(munmap(grown + 2 * PAGE, 2 * PAGE) == 0);
    close(file);
}

static struct flock lock_of(short whence, long start, long bytes) {
    return (struct flock){.l_type = F_WRLCK, .l_whence = whence, .l_start = start, .l_len = bytes};
}

static void far_locks(void) {
    int file = new_file(10);
    struct flock lock = lock_of(SEEK_SET, LAST, 1);
    CHECK(fcntl(file, F_SETLK, &lock) == 0);
    lock = lock_of(SEEK_SET, LAST, 2);
    FAILS(fcntl(file, F_SETLK, &lock), EOVERFLOW);
    lock = lock_of(SEEK_SET, 1, LAST);
    CHECK(fcntl(file, F_SETLK, &lock) == 0);
    lock = lock_of(SEEK_SET, 2, LAST);
    FAILS(fcntl(file, F_SETLK, &lock), EOVERFLOW);
    lock = lock_of(SEEK_END, LAST, 1);
    FAILS(fcntl(file, F_SETLK, &lock), EOVERFLOW);
    lock = lock_of(SEEK_SET, 0, INT64_MIN);
    FAILS(fcntl(file, F_SETLK, &lock), EINVAL);
    lock = lock_of(SEEK_SET, INT64_MIN, 1);
    FAILS(fcntl(file, F_SETLK, &lock), EINVAL);
    lock = lock_of(SEEK_END, -10, INT64_MIN);
    FAILS(fcntl(file, F_SETLK, &lock), EINVAL);
    close(file);
}

/* Reading far away finds the end of the file; writing there is refused. */
static void far_places(void) {
    int file = new_file(PAGE), other = new_file(PAGE), ends[2];
    char text[16] = "fifteen letters";
    CHECK(pread(file, text, 16, LAST - 20) == 0);
    FAILS(pread(file, text, 16, LAST), EINVAL);
    FAILS(pread(file, text, 16, -1), EINVAL);
    FAILS(pwrite(file, text, 16, -1), EINVAL);
    FAILS(pwrite(file, text, 16, LAST), EINVAL);
    CHECK(lseek(file, LAST, SEEK_SET) == LAST);
    FAILS(lseek(file, 1, SEEK_CUR), EINVAL);
    FAILS(lseek(file, LAST, SEEK_END), EINVAL);
    FAILS(lseek(file, INT64_MIN, SEEK_CUR), EINVAL);
    FAILS(write(file, text, 16), EINVAL);
    CHECK(lseek(file, 0, SEEK_SET) == 0);
    FAILS(ftruncate(file, -1), EINVAL);
    FAILS(fallocate(file, 0, LAST, 1), EFBIG);
    FAILS(fallocate(file, 0, -1, 1), EINVAL);
    FAILS(fallocate(file, 0, 0, INT64_MIN), EINVAL);
    loff_t from = LAST - 10, to = 0;
    CHECK(pipe(ends) == 0);
    FAILS(sendfile(ends[1], file, &from, 100), EINVAL);
    from = -50;
    FAILS(sendfile(ends[1], file, &from, 100), EINVAL);
    FAILS(splice(file, &from, ends[1], NULL, 100, 0), EINVAL);
    CHECK(write(ends[1], text, 16) == 16);
    to = -50;
    FAILS(splice(ends[0], NULL, file, &to, 16, 0), EINVAL);
    to = LAST;
    FAILS(splice(ends[0], NULL, file, &to, 16, SPLICE_F_NONBLOCK), EINVAL);
    to = LAST, from = 0;
    FAILS(copy_file_range(file, &from, other, &to, 16, 0), EFBIG);
    from = LAST, to = 0;
    CHECK(copy_file_range(file, &from, other, &to, 16, 0) == 0);
    CHECK(readahead(file, -1, 10) == 0);
    FAILS(readahead(file, 0, -1), EINVAL);
    CHECK(posix_fadvise(file, -5, 10, POSIX_FADV_WILLNEED) == 0);
    CHECK(posix_fadvise(file, LAST, LAST, POSIX_FADV_WILLNEED) == 0 && posix_fadvise(file, 0, -1, POSIX_FADV_DONTNEED) == EINVAL);
    close(file), close(other), close(ends[0]), close(ends[1]);
}

/* Lengths of lists and buffers. */
static void long_lists(void) {
    char byte = 1;
    int ends[2], zero = open("/dev/zero", O_RDONLY);
    struct iovec pieces[2] = {{&byte, 1}, {&byte, SIZE_MAX}};
    CHECK(pipe(ends) == 0 && zero >= 0);
    FAILS(readv(zero, pieces, 2), EINVAL);
    FAILS(writev(ends[1], pieces, 2), EINVAL);
    FAILS(readv(zero, pieces, -1), EINVAL);
    FAILS(readv(zero, pieces, 1025), EINVAL);
    pieces[1].iov_len = INT64_MAX;
    CHECK(writev(ends[1], pieces, 1) == 1);
    FAILS(read(zero, (void *)-PAGE, SIZE_MAX), EFAULT);
    FAILS(syscall(SYS_poll, &byte, UINT32_MAX, 0), EINVAL);
    FAILS(syscall(SYS_setgroups, INT32_MAX, &byte), geteuid() == 0 ? EINVAL : EPERM);
    FAILS(syscall(SYS_getgroups, -1, &byte), EINVAL);
    FAILS(syscall(SYS_io_setup, UINT32_MAX, &byte), EINVAL);
    FAILS(madvise((void *)-PAGE, 2 * PAGE, MADV_DONTNEED), EINVAL);
    FAILS(munmap((void *)-PAGE, PAGE), EINVAL);
    FAILS(mprotect((void *)-PAGE, PAGE, PROT_READ), ENOMEM);
    FAILS(kill(INT32_MIN, 0), ESRCH);
    FAILS(waitpid(INT32_MIN, NULL, 0), ESRCH);
    FAILS(msync((void *)-PAGE, PAGE, MS_SYNC), ENOMEM);
    close(zero), close(ends[0]), close(ends[1]);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    far_timers();
    far_mappings();
    far_locks();
    far_places();
    long_lists();
    done("extremes");
    return 0;
}
