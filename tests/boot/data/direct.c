/* Overwrites files past the cache (O_DIRECT) from several threads until it is killed: for the disks of tests/boot/data that get another image. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 8, BLOCK = 4096, BLOCKS = 256 };

static void *overwrite(void *folder)
{
    static int numbers;
    char path[256];
    char *block;
    snprintf(path, sizeof path, "%s/%d", (char *)folder, __atomic_fetch_add(&numbers, 1, __ATOMIC_RELAXED));
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fd < 0 || posix_memalign((void **)&block, BLOCK, BLOCK) != 0)
        exit(1);
    for (int at = 0; at < BLOCK; at += 16)
        memcpy(block + at, "of the old disk\n", 16);
    for (int number = 0; number < BLOCKS; number++)
        if (write(fd, block, BLOCK) != BLOCK)
            exit(2);
    if (fsync(fd) != 0 || (fd = open(path, O_WRONLY | O_DIRECT)) < 0)
        exit(3);
    for (unsigned number = 0;; number += 7)
        if (pwrite(fd, block, BLOCK, (off_t)(number % BLOCKS) * BLOCK) != BLOCK)
            exit(4);
}

int main(int count, char **words)
{
    pthread_t thread;
    if (count != 2)
        return 5;
    for (int number = 0; number < THREADS; number++)
        if (pthread_create(&thread, NULL, overwrite, words[1]) != 0)
            return 6;
    sleep(1);
    puts("writes");
    fflush(stdout);
    for (;;)
        pause();
}
