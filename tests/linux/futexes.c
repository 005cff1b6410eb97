/* Many threads that wait for a word: woken by one, by bits and all at once, moved to another word, timed out there, killed. */
#include "check.h"
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>

enum { MANY = 150, EVEN = 1, ODD = 2 };

static uint32_t *words;
static volatile int left, late;

static long futex(uint32_t *word, int operation, long value, void *timeout_or_count, uint32_t *other, uint32_t last)
{
    return syscall(SYS_futex, word, operation, value, timeout_or_count, other, last);
}

static void *wait_once(void *bits)
{
    CHECK(futex(words, FUTEX_WAIT_BITSET_PRIVATE, 0, NULL, NULL, (uintptr_t)bits) == 0);
    __atomic_add_fetch(&left, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

static void *wait_shortly(void *unused)
{
    struct timespec wait = {0, 300000000};
    (void)unused;
    FAILS(futex(words, FUTEX_WAIT_PRIVATE, 0, &wait, NULL, 0), ETIMEDOUT);
    __atomic_add_fetch(&late, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

static pthread_t threads[MANY];

static void begin(void *(*body)(void *))
{
    pthread_attr_t small;
    CHECK(pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, 64 << 10) == 0);
    left = 0;
    for (int at = 0; at < MANY; at++) CHECK(pthread_create(&threads[at], &small, body, (void *)(uintptr_t)(at % 2 ? ODD : EVEN)) == 0);
}

static void end(void)
{
    for (int at = 0; at < MANY; at++) CHECK(pthread_join(threads[at], NULL) == 0);
}

/* Moves the waiters of the first word to the second until all have come. */
static void move_all(void)
{
    for (int moved = 0; moved < MANY; sleep_ms(1)) {
        long now = futex(words, FUTEX_CMP_REQUEUE_PRIVATE, 0, (void *)(long)INT_MAX, words + 1, 0);
        CHECK(now >= 0);
        moved += now;
        CHECK(moved <= MANY);
    }
}

static long wake(uint32_t *word, long count, uint32_t bits)
{
    return futex(word, FUTEX_WAKE_BITSET_PRIVATE, count, NULL, NULL, bits);
}

static void woken_by_bits(void)
{
    begin(wait_once);
    move_all();
    CHECK(wake(words, INT_MAX, ~0u) == 0);
    CHECK(wake(words + 1, 1, ODD) == 1 && wake(words + 1, 2, EVEN) == 2);
    CHECK(wake(words + 1, INT_MAX, ODD) == MANY / 2 - 1);
    CHECK(wake(words + 1, INT_MAX, 4) == 0);
    CHECK(wake(words + 1, INT_MAX, ODD | EVEN) == MANY / 2 - 2);
    end();
    CHECK(left == MANY && wake(words + 1, INT_MAX, ~0u) == 0);
}

/* Wakes some of one word and moves the others; wakes both words by one call. */
static void moved_and_woken(void)
{
    begin(wait_once);
    move_all();
    CHECK(futex(words + 1, FUTEX_REQUEUE_PRIVATE, 10, (void *)100L, words + 2, 0) == 110);
    FAILS(futex(words + 1, FUTEX_CMP_REQUEUE_PRIVATE, 10, (void *)100L, words + 2, 7), EAGAIN);
    CHECK(futex(words + 1, FUTEX_CMP_REQUEUE_PRIVATE, 0, (void *)(long)INT_MAX, words + 1, 0) == MANY - 110);
    /* The second word becomes 5, and was 0. */
    CHECK(futex(words + 1, FUTEX_WAKE_OP_PRIVATE, INT_MAX, (void *)90L, words + 2, FUTEX_OP(FUTEX_OP_SET, 5, FUTEX_OP_CMP_EQ, 0)) == MANY - 110 + 90);
    CHECK(words[2] == 5);
    CHECK(futex(words + 1, FUTEX_WAKE_OP_PRIVATE, 1, (void *)90L, words + 2, FUTEX_OP(FUTEX_OP_SET, 0, FUTEX_OP_CMP_LT, 5)) == 0);
    CHECK(words[2] == 0 && wake(words + 2, INT_MAX, ~0u) == 10);
    end();
    CHECK(left == MANY);
}

static void late_where_they_were_moved(void)
{
    begin(wait_shortly);
    for (int tries = 0; tries < 200; tries++, sleep_ms(1)) CHECK(futex(words, FUTEX_REQUEUE_PRIVATE, 0, (void *)(long)INT_MAX, words + 1, 0) >= 0);
    end();
    CHECK(late == MANY && wake(words, INT_MAX, ~0u) == 0 && wake(words + 1, INT_MAX, ~0u) == 0);
}

/* The threads of a process that is killed wait no more for a word that others share. */
static void killed(void)
{
    uint32_t *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        begin(wait_once);
        futex(shared, FUTEX_WAIT, 0, NULL, NULL, 0);
        _exit(0);
    }
    for (long moved = 0; moved == 0; sleep_ms(1)) moved = futex(shared, FUTEX_CMP_REQUEUE, 0, (void *)1L, shared + 1, 0);
    CHECK(kill(child, SIGKILL) == 0 && WTERMSIG(status_of(child)) == SIGKILL);
    CHECK(futex(shared, FUTEX_WAKE, INT_MAX, NULL, NULL, 0) == 0 && futex(shared + 1, FUTEX_WAKE, INT_MAX, NULL, NULL, 0) == 0);
}

int main(void)
{
    words = calloc(4, sizeof *words);
    CHECK(words != NULL);
    woken_by_bits();
    moved_and_woken();
    late_where_they_were_moved();
    killed();
    done("futexes");
    return 0;
}
