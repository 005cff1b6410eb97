/* Attack 5: buffers in the kernel, across the border, with lengths that overflow. */
#include "attack.h"
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

int main(void) {
    attack_begin();
    int ends[2], zero = open("/dev/zero", O_RDONLY), null = open("/dev/null", O_WRONLY);
    CHECK(pipe(ends) == 0 && zero >= 0 && null >= 0);
    unsigned long bad[] = {KERNEL_ADDRESS, DIRECT_MAP, 0x800000000000, USER_TOP, 0, 8, -4096UL, -1UL};
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        void *at = (void *)bad[i];
        FAILS(read(zero, at, 4096), EFAULT);
        FAILS(write(ends[1], at, 16), EFAULT);
        FAILS(open(at, O_RDONLY), EFAULT);
        FAILS(pipe(at), EFAULT);
        FAILS(stat("/", at), EFAULT);
        FAILS(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, at), EFAULT);
        if (at) FAILS(syscall(SYS_rt_sigaction, SIGUSR1, at, NULL, 8), EFAULT);
        struct iovec piece = {at, 16};
        FAILS(writev(ends[1], &piece, 1), EFAULT);
        FAILS(writev(ends[1], at, 1), EFAULT);
        FAILS(syscall(SYS_futex, at, 0, 0, NULL), bad[i] % 4 ? EINVAL : EFAULT);
    }
    /* Across the end of a mapping: what fits is done. */
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(munmap(page + 4096, 4096) == 0);
    memset(page, 'x', 4096);
    ssize_t count = write(ends[1], page + 4090, 100);
    CHECK(count == 6 || (count == -1 && errno == EFAULT));
    CHECK(write(ends[1], page + 4090, 6) == 6);
    count = read(ends[0], page + 4094, 100);
    CHECK(count == 2 || (count == -1 && errno == EFAULT));
    /* Read-only memory is not written. */
    CHECK(mprotect(page, 4096, PROT_READ) == 0);
    FAILS(read(zero, page, 10), EFAULT);
    /* Lengths. */
    struct iovec pieces[1025];
    for (int i = 0; i < 1025; i++) pieces[i] = (struct iovec){page, 1};
    FAILS(writev(null, pieces, 1025), EINVAL);
    FAILS(writev(null, pieces, -1), EINVAL);
    pieces[0].iov_len = -1UL;
    FAILS(writev(null, pieces, 2), EINVAL);
    pieces[0].iov_len = pieces[1].iov_len = 0x7fffffffffffffff;
    FAILS(writev(ends[1], pieces, 2), errno == EINVAL ? EINVAL : EFAULT);
    ssize_t huge = syscall(SYS_write, ends[1], page, -4096L);
    CHECK((huge == -1 && errno == EFAULT) || (huge > 0 && huge <= 4096));
    FAILS(syscall(SYS_mmap, 0, -4096L, 3, 0x22, -1, 0), ENOMEM);
    FAILS(syscall(SYS_mmap, DIRECT_MAP, 4096, 3, 0x32, -1, 0), ENOMEM);
    FAILS(syscall(SYS_mprotect, DIRECT_MAP, 4096, 3), ENOMEM);
    FAILS(syscall(SYS_munmap, DIRECT_MAP, 4096), EINVAL);
    FAILS(syscall(SYS_mremap, DIRECT_MAP, 4096, 8192, 1), errno == EINVAL ? EINVAL : EFAULT);
    FAILS(syscall(SYS_arch_prctl, 0x1002, DIRECT_MAP), EPERM);
    done("pointers");
    return 0;
}
