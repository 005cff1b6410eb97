/* Threads on all cores map, fill, check and unmap at once: what one of them unmaps may be given to another one at once, and no core
   may reach the old pages by then. */
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#define PAGE 4096UL
#define THREADS 4
#define SECONDS 3

static atomic_int stop;
static atomic_long rounds;

static void check(unsigned char *memory, size_t bytes, unsigned char mark) {
    for (size_t at = 0; at < bytes; at += PAGE) CHECK(memory[at] == mark && memory[at + 100] == mark);
}

static void *churn(void *argument) {
    unsigned seed = (unsigned)(uintptr_t)argument;
    while (!stop) {
        size_t pages = 1 + rand_r(&seed) % 24;
        unsigned char mark = 1 + rand_r(&seed) % 255;
        unsigned char *memory =
            mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(memory != MAP_FAILED);
        for (size_t at = 0; at < pages * PAGE; at += PAGE) CHECK(memory[at] == 0 && memory[at + 100] == 0);
        for (size_t at = 0; at < pages * PAGE; at += PAGE) memory[at] = memory[at + 100] = mark;
        check(memory, pages * PAGE, mark);
        size_t cut = rand_r(&seed) % pages;
        if (cut > 0) CHECK(munmap(memory + cut * PAGE, (pages - cut) * PAGE) == 0);
        else cut = pages;
        check(memory, cut * PAGE, mark);
        if (seed & 16) {
            unsigned char *moved = mremap(memory, cut * PAGE, (cut + 3) * PAGE, MREMAP_MAYMOVE);
            CHECK(moved != MAP_FAILED && moved[(cut + 2) * PAGE] == 0);
            memory = moved;
            check(memory, cut * PAGE, mark);
            CHECK(munmap(memory + cut * PAGE, 3 * PAGE) == 0);
        }
        if (seed & 32) {
            CHECK(madvise(memory, cut * PAGE, MADV_DONTNEED) == 0 && memory[0] == 0);
        }
        CHECK(munmap(memory, cut * PAGE) == 0);
        rounds++;
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    for (long index = 0; index < THREADS; index++) CHECK(pthread_create(&threads[index], NULL, churn, (void *)(index + 7)) == 0);
    sleep_ms(SECONDS * 1000);
    while (rounds <= THREADS) sleep_ms(10);
    stop = 1;
    for (int index = 0; index < THREADS; index++) CHECK(pthread_join(threads[index], NULL) == 0);
    done("unmapping");
    return 0;
}
