/* Writes to a file through its mapping, round by round, and says on standard output which round is durable. The checker knows which pages a round
 * writes (host/tool/src/exp/crash/mapping.rs). usage: map_writer FILE */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 1024, AT_ONCE = 24, ROUND_STEP = 37, PAGE_STEP = 41 };

static void write_round(char *map, uint64_t round) {
    for (uint64_t each = 0; each < AT_ONCE; each++) {
        char *page = map + (round * ROUND_STEP + each * PAGE_STEP) % PAGES * PAGE;
        *(uint64_t *)page = *(uint64_t *)(page + PAGE - sizeof round) = round;
    }
}

int main(int count, char **arguments) {
    int file = count == 2 ? open(arguments[1], O_RDWR | O_CREAT, 0644) : -1;
    if (file < 0 || ftruncate(file, PAGES * PAGE) != 0) return 1;
    char *map = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (map == MAP_FAILED) return 2;
    for (uint64_t round = 1;; round++) {
        write_round(map, round);
        /* A page that was taken away and comes back is written, too. */
        if (round % 5 == 0 && madvise(map, PAGES * PAGE, MADV_PAGEOUT) != 0) return 3;
        if ((round % 2 ? msync(map, PAGES * PAGE, MS_SYNC) : fsync(file)) != 0) return 4;
        printf("@map %lu\n", round);
        fflush(stdout);
    }
}
