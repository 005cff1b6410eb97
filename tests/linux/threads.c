/* Threads: creation, joining, locks, conditions, thread-local storage, robust and shared locks, signals to threads, exec. */
#include "check.h"
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>

#define THREADS 8
#define ROUNDS 20000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static long total, turn;
static __thread long own;

static void *add(void *argument) {
    for (int i = 0; i < ROUNDS; i++) {
        own++;
        pthread_mutex_lock(&lock);
        total++;
        pthread_mutex_unlock(&lock);
    }
    CHECK(own == ROUNDS);
    return argument;
}

static void locks(void) {
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, add, (void *)i) == 0);
    for (long i = 0; i < THREADS; i++) {
        void *answer;
        CHECK(pthread_join(threads[i], &answer) == 0 && (long)answer == i);
    }
    CHECK(total == THREADS * ROUNDS && own == 0);
}

static void *take_turns(void *argument) {
    long me = (long)argument;
    for (int i = 0; i < 200; i++) {
        pthread_mutex_lock(&lock);
        while (turn % 2 != me) pthread_cond_wait(&changed, &lock);
        turn++;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static void conditions(void) {
    pthread_t other;
    CHECK(pthread_create(&other, NULL, take_turns, (void *)1) == 0);
    take_turns((void *)0);
    CHECK(pthread_join(other, NULL) == 0 && turn == 400);
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_nsec += 20000000;
    if (end.tv_nsec >= 1000000000) { end.tv_sec++; end.tv_nsec -= 1000000000; }
    pthread_mutex_lock(&lock);
    CHECK(pthread_cond_timedwait(&changed, &lock, &end) == ETIMEDOUT);
    pthread_mutex_unlock(&lock);
}

static void *die_with(void *mutex) {
    pthread_mutex_lock(mutex);
    return NULL;
}

static void robust(void) {
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
    pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
    pthread_mutex_t *mutex = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(pthread_mutex_init(mutex, &kind) == 0);
    pthread_t thread;
    pthread_create(&thread, NULL, die_with, mutex);
    pthread_join(thread, NULL);
    CHECK(pthread_mutex_lock(mutex) == EOWNERDEAD && pthread_mutex_consistent(mutex) == 0);
    pthread_mutex_unlock(mutex);
    pid_t child = fork();
    if (child == 0) { pthread_mutex_lock(mutex); kill(getpid(), SIGKILL); }
    status_of(child);
    CHECK(pthread_mutex_lock(mutex) == EOWNERDEAD);
    pthread_mutex_consistent(mutex);
    pthread_mutex_unlock(mutex);
}

static void shared_semaphore(void) {
    sem_t *both = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    sem_init(&both[0], 1, 0);
    sem_init(&both[1], 1, 0);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 100; i++) { sem_wait(&both[0]); sem_post(&both[1]); }
        _exit(0);
    }
    for (int i = 0; i < 100; i++) { sem_post(&both[0]); sem_wait(&both[1]); }
    CHECK(status_of(child) == 0);
}

static volatile pid_t taker;
static void note(int signal) { (void)signal; taker = syscall(SYS_gettid); }
static void *wait_for_it(void *argument) {
    *(volatile pid_t *)argument = syscall(SYS_gettid);
    while (taker == 0) sleep_ms(1);
    return NULL;
}

static void signals(void) {
    struct sigaction action = {.sa_handler = note};
    sigaction(SIGUSR1, &action, NULL);
    volatile pid_t id = 0;
    pthread_t thread;
    pthread_create(&thread, NULL, wait_for_it, (void *)&id);
    while (id == 0) sleep_ms(1);
    CHECK(id != getpid() && pthread_kill(thread, SIGUSR1) == 0);
    pthread_join(thread, NULL);
    CHECK(taker == id);
    /* A signal to the process reaches the one thread that does not block it. */
    taker = id = 0;
    pthread_create(&thread, NULL, wait_for_it, (void *)&id);
    while (id == 0) sleep_ms(1);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    kill(getpid(), SIGUSR1);
    pthread_join(thread, NULL);
    CHECK(taker == id);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static void *sleep_for_ever(void *argument) { for (;;) pause(); return argument; }
static void *execute(void *argument) {
    char *arguments[] = {argument, "again", NULL};
    execv("/proc/self/exe", arguments);
    execv(argument, arguments);
    return NULL;
}

static void ends(const char *self) {
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        for (int i = 0; i < 3; i++) pthread_create(&thread, NULL, sleep_for_ever, NULL);
        pthread_create(&thread, NULL, execute, (void *)self);
        pthread_exit(NULL);
    }
    int status = status_of(child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 77);
    child = fork();
    if (child == 0) {
        pthread_t thread;
        for (int i = 0; i < 3; i++) pthread_create(&thread, NULL, sleep_for_ever, NULL);
        exit(5);
    }
    CHECK(WEXITSTATUS(status_of(child)) == 5);
}

int main(int count, char **arguments) {
    if (count == 2) return getpid() == syscall(SYS_gettid) ? 77 : 78;
    locks();
    conditions();
    robust();
    shared_semaphore();
    signals();
    ends(arguments[0]);
    done("threads");
    return 0;
}
