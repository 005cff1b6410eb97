// "mapped read FILE": looks at each page of a file through a shared mapping. "mapped write FILE": writes to each, too, and syncs.
// "mapped stat FILE": looks at none. Says how many pages there are and how long it took, ms.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

enum { PAGE = 4096 };

static long now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void must(int is_done, const char *what) {
    if (!is_done) perror(what), exit(1);
}

int main(int count, char **words) {
    must(count == 3, "words");
    int writes = !strcmp(words[1], "write"), file = open(words[2], writes ? O_RDWR : O_RDONLY);
    struct stat status;
    must(file >= 0 && !fstat(file, &status), words[2]);
    long start = now_ms(), sum = 0, end = strcmp(words[1], "stat") ? status.st_size : 0;
    volatile char *at = mmap(NULL, status.st_size, writes ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, file, 0);
    must(at != MAP_FAILED, "mmap");
    for (long place = 0; place < end; place += PAGE) {
        sum += at[place];
        if (writes) at[place] = sum;
    }
    must(!writes || !msync((void *)at, status.st_size, MS_SYNC), "msync");
    printf("%ld pages %ld ms\n", status.st_size / PAGE, now_ms() - start);
    return 0;
}
