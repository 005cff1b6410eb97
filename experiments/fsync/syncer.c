// Two tenants of one disk, in rounds by the machine's clock: in odd ones the storm syncs, in even ones it rests.
// "victim ROUNDS SECONDS": appends a page and syncs it, some times a second; at its end says how long each took, and in which round.
// "storm ROUNDS SECONDS": in odd rounds four threads overwrite a page each and sync it, without pause; says how often they did.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, SYNCS_MAX = 100000, PAUSE_MS = 50, SETTLE_MS = 1000, WRITERS = 4, ROUNDS_MAX = 1000, LINE = 16 };

static char page[PAGE];
static struct { int round; double ms; } times[SYNCS_MAX];
static long stormed[WRITERS][ROUNDS_MAX];
static double round_ms;
static int rounds;

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static void fail(const char *what) {
    perror(what);
    printf("fsync: FAILED %s\n", what);
    fflush(stdout);
    exit(1);
}

static void pause_ms(double ms) {
    struct timespec t = {ms / 1000, (long)ms % 1000 * 1000000L};
    nanosleep(&t, 0);
}

static int round_at(double ms) { return ms / round_ms; }

// The first whole even round after the machine has come up: round 2, so that both tenants agree.
enum { FIRST = 2 };

static void victim(void) {
    int file = open("/data/log", O_WRONLY | O_CREAT | O_APPEND, 0600), count = 0;
    if (file < 0)
        fail("open");
    for (double start = now_ms(); round_at(start) < FIRST + rounds; start = now_ms()) {
        if (write(file, page, PAGE) != PAGE)
            fail("write");
        if (fsync(file))
            fail("fsync");
        int round = round_at(start) - FIRST;
        int is_settled = start - (round + FIRST) * round_ms >= SETTLE_MS;
        if (round >= 0 && is_settled && count < SYNCS_MAX) {
            times[count].ms = now_ms() - start;
            times[count++].round = round;
        }
        pause_ms(PAUSE_MS);
    }
    // Some in a line: the log of a tenant keeps only so much.
    for (int i = 0, in_line = 0; i < count; i++) {
        int is_next = i && times[i].round == times[i - 1].round && in_line < LINE;
        if (is_next) printf(" %.2f", times[i].ms);
        else printf("%sfsync: took %d %.2f", i ? "\n" : "", times[i].round, times[i].ms);
        in_line = is_next ? in_line + 1 : 1;
    }
    printf("\nfsync: done\n");
}

static void *writer(void *number) {
    char name[32];
    snprintf(name, sizeof name, "/data/log%ld", (long)number);
    int file = open(name, O_WRONLY | O_CREAT, 0600);
    if (file < 0)
        fail("open");
    for (int round; (round = round_at(now_ms())) < FIRST + rounds;) {
        if (round % 2 == 0) {
            pause_ms((round + 1) * round_ms - now_ms() + 1);
            continue;
        }
        if (pwrite(file, page, PAGE, 0) != PAGE || fsync(file))
            fail("storm");
        stormed[(long)number][round]++;
    }
    return NULL;
}

static void storm(void) {
    pthread_t threads[WRITERS];
    for (long i = 0; i < WRITERS; i++)
        pthread_create(&threads[i], 0, writer, (void *)i);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    for (int round = 1; round < rounds; round += 2) {
        long sum = 0;
        for (int i = 0; i < WRITERS; i++)
            sum += stormed[i][FIRST + round];
        printf("fsync: stormed %d %ld\n", round, sum);
    }
}

int main(int count, char **words) {
    mkdir("/data", 0700);
    memset(page, 7, PAGE);
    if (count != 4)
        fail("words");
    rounds = atoi(words[2]);
    round_ms = atoi(words[3]) * 1e3;
    if (rounds < 2 || rounds > ROUNDS_MAX - FIRST || round_ms <= SETTLE_MS)
        fail("rounds");
    strcmp(words[1], "victim") ? storm() : victim();
    fflush(stdout);
    for (;;)
        pause();
}
