/* Threads of pthreads: mutexes, conditions, thread-local variables, a thread that spins until another one runs, a pipe between two, a fork. It
 * knows of no scheduler: gyre-pulse-threads puts one under it (LD_PRELOAD). Prints "threads: WHAT COUNT"; ends with 0 if all is right. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 8
#define ROUNDS 5000
#define TURNS 20

static int failures;

#define CHECK(what)                                                                  \
    do {                                                                             \
        if (!(what)) {                                                               \
            failures++;                                                              \
            printf("threads: FAILED: line %d: %s\n", __LINE__, #what);               \
        }                                                                            \
    } while (0)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static long sum, turn;
static atomic_int flag;
static _Thread_local long own;
static int ends[2];

static void *work(void *argument) {
    own = (long)argument;
    errno = (int)own;
    for (int at = 0; at < ROUNDS; at++) {
        pthread_mutex_lock(&mutex);
        sum++;
        pthread_mutex_unlock(&mutex);
        if (at % 1000 == 0) sched_yield();
    }
    for (int at = 0; at < TURNS; at++) {
        pthread_mutex_lock(&mutex);
        while (turn % THREADS != own) pthread_cond_wait(&changed, &mutex);
        turn++;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&mutex);
    }
    return errno == (int)own ? (void *)own : NULL;
}

static void *spin(void *argument) {
    while (!flag);
    return argument;
}

static void *set(void *argument) {
    flag = 1;
    return argument;
}

/* Waits in a call of the kernel, on the only virtual core perhaps. */
static void *read_one(void *argument) {
    char byte = 0;
    CHECK(read(ends[0], &byte, 1) == 1 && byte == 'x');
    return argument;
}

static void *write_one(void *argument) {
    CHECK(write(ends[1], "x", 1) == 1);
    return argument;
}

static void *end(void *argument) {
    (void)argument;
    usleep(1000);
    sched_yield();
    _exit(failures != 0);
}

static void both(void *(*one)(void *), void *(*other)(void *)) {
    pthread_t first, second;
    CHECK(pthread_create(&first, NULL, one, NULL) == 0);
    usleep(2000);
    CHECK(pthread_create(&second, NULL, other, NULL) == 0);
    CHECK(pthread_join(first, NULL) == 0 && pthread_join(second, NULL) == 0);
}

int main(void) {
    pthread_t threads[THREADS];
    sigset_t all;
    long right = 0;
    /* As programs do that want no signals in their threads. */
    sigfillset(&all);
    CHECK(pthread_sigmask(SIG_SETMASK, &all, NULL) == 0);
    for (long at = 0; at < THREADS; at++) CHECK(pthread_create(&threads[at], NULL, work, (void *)at) == 0);
    for (long at = 0; at < THREADS; at++) {
        void *answer = NULL;
        CHECK(pthread_join(threads[at], &answer) == 0);
        right += (long)answer == at;
    }
    CHECK(right == THREADS && sum == THREADS * ROUNDS && turn == THREADS * TURNS);
    both(spin, set);
    CHECK(pipe(ends) == 0);
    both(read_one, write_one);
    pid_t child = fork();
    if (child == 0) _exit(sched_yield() == 0 && pthread_mutex_lock(&mutex) == 0 ? 7 : 8);
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    printf("threads: right %ld\n", right);
    fflush(stdout);
    /* The first thread ends before the last one. */
    pthread_t last;
    CHECK(pthread_create(&last, NULL, end, NULL) == 0);
    pthread_exit(NULL);
}
