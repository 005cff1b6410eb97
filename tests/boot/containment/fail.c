/* Has work of the kernel for this process fail (kernels with the feature fault-injection only): fail KIND RESOURCE AFTER, positions as in
 * host/config/src/native.rs. Then does a little of everything, so that the step comes. Says "lived" if it does not. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FAIL 0x10f0

static void *second(void *none) {
    for (;;)
        pause();
    return none;
}

static void on_files(const char *folder) {
    char path[64], text[5000];
    memset(text, 'x', sizeof text);
    snprintf(path, sizeof path, "%s/fail-%d", folder, getpid());
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file >= 0) {
        if (write(file, text, sizeof text) > 0 && lseek(file, 0, SEEK_SET) == 0 && read(file, text, sizeof text) < 0)
            perror("read");
        fsync(file);
        close(file);
    }
    unlink(path);
}

int main(int count, char **words) {
    int ends[2];
    pthread_t other;
    if (count != 4 || pipe(ends) != 0 || pthread_create(&other, 0, second, 0) != 0)
        return 2;
    if (syscall(FAIL, atol(words[1]), atol(words[2]), atol(words[3])) != 0) {
        printf("fail: %s\n", strerror(errno));
        return 3;
    }
    for (int round = 0; round < 20; round++) {
        struct timespec moment = {0, 1000000};
        char byte = 1;
        nanosleep(&moment, 0);
        if (write(ends[1], &byte, 1) != 1 || read(ends[0], &byte, 1) != 1)
            return 4;
        on_files("/root");
        on_files("/tmp");
    }
    puts("lived");
    return 0;
}
