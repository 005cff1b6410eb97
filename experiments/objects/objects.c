/* Kernel objects beside kernel objects, on both kernels (`gyre exp objects`).
   "use": makes an object of each kind, uses it and removes it, with pauses, and says how long that took.
   "rest": asks for its parent without pause. "make": MAKERS processes make MANY objects of each kind each and remove them, without pause; a
   process has 4,096 timers at most here.
   These two say now and then how often they did it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MAKERS = 3, MANY = 3334, USES = 1000, PAUSE_NS = 1000000, SETTLE_S = 5, TOLD = 1 << 20, SOME_FILES = 50 };

struct message {
    long type;
    char text[16];
};

static uint64_t took[USES];

static void fail(const char *what) {
    printf("objects: FAILED %s %d\n", what, errno);
    exit(1);
}

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static int order(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static int make_pidfd(void) {
    int pidfd = syscall(SYS_pidfd_open, getpid(), 0);
    if (pidfd < 0) fail("pidfd_open");
    return pidfd;
}

/* Not the C library's: that one has numbers of its own. */
static int make_timer(void) {
    int timer;
    struct sigevent event = {.sigev_notify = SIGEV_NONE};
    struct itimerspec late = {.it_value = {.tv_sec = 3600}};
    if (syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer)) fail("timer_create");
    if (syscall(SYS_timer_settime, timer, 0, &late, NULL)) fail("timer_settime");
    return timer;
}

static void remove_timer(int timer) {
    if (syscall(SYS_timer_delete, timer)) fail("timer_delete");
}

static int make_queue(void) {
    struct message message = {.type = 1, .text = "a message"};
    int queue = msgget(IPC_PRIVATE, 0600);
    if (queue < 0 || msgsnd(queue, &message, sizeof message.text, IPC_NOWAIT)) fail("message queue");
    return queue;
}

static int make_semaphore(void) {
    struct sembuf up = {.sem_op = 1};
    int set = semget(IPC_PRIVATE, 1, 0600);
    if (set < 0 || semop(set, &up, 1)) fail("semaphore");
    return set;
}

static mqd_t make_named(const char *name) {
    struct mq_attr attr = {.mq_maxmsg = 1, .mq_msgsize = 16};
    mqd_t named = mq_open(name, O_CREAT | O_RDWR | O_NONBLOCK, 0600, &attr);
    if (named == (mqd_t)-1 || mq_send(named, "a message", 9, 0)) fail("named queue");
    return named;
}

static void use(void) {
    /* Linux has one table of names for all tenants. */
    char own[32];
    sprintf(own, "/own-%d", getpid());
    struct message message;
    struct sembuf down = {.sem_op = -1, .sem_flg = IPC_NOWAIT};
    char text[16];
    int pidfd = make_pidfd(), timer = make_timer(), queue = make_queue(), set = make_semaphore();
    mqd_t named = make_named(own);
    if (msgrcv(queue, &message, sizeof message.text, 0, IPC_NOWAIT) != sizeof message.text) fail("msgrcv");
    if (semop(set, &down, 1)) fail("semop");
    if (mq_receive(named, text, sizeof text, NULL) != 9) fail("mq_receive");
    if (syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0)) fail("pidfd_send_signal");
    close(pidfd);
    remove_timer(timer);
    if (msgctl(queue, IPC_RMID, NULL) || semctl(set, 0, IPC_RMID) || mq_close(named) || mq_unlink(own)) fail("remove");
}

static void neighbour(void) {
    struct timespec settle = {SETTLE_S, 0}, pause = {0, PAUSE_NS};
    for (int index = 0; index < 10; index++) use();
    nanosleep(&settle, NULL);
    printf("objects: begins 0\n");
    for (int index = 0; index < USES; index++) {
        uint64_t begun = now();
        use();
        took[index] = now() - begun;
        nanosleep(&pause, NULL);
    }
    qsort(took, USES, sizeof took[0], order);
    printf("objects: p50 %llu\nobjects: p99 %llu\nobjects: max %llu\nobjects: done 0\n", (unsigned long long)took[USES / 2],
           (unsigned long long)took[USES * 99 / 100], (unsigned long long)took[USES - 1]);
    for (;;) sleep(1000);
}

static void did(long times) {
    if (times % TOLD == 0) printf("objects: did %ld\n", times);
}

static void rest(void) {
    for (long times = 1;; times++) {
        getppid();
        did(times);
    }
}

static void allow(int what, rlim_t most) {
    struct rlimit limit;
    if (getrlimit(what, &limit)) fail("getrlimit");
    if (limit.rlim_cur < most) limit.rlim_cur = most;
    if (limit.rlim_max < most) limit.rlim_max = most;
    if (setrlimit(what, &limit)) fail("setrlimit");
}

static void made(int maker, long times) {
    if (maker == 0 && times % 1000 == 0) printf("objects: did %ld\n", times * MAKERS);
}

static void make(void) {
    static int pidfds[MANY], timers[MANY], queues[MANY], sets[MANY];
    static mqd_t named[SOME_FILES];
    char name[32];
    allow(RLIMIT_NOFILE, MANY + 1000);
    int maker = 0;
    while (maker < MAKERS - 1 && fork() == 0) maker++;
    for (long times = 1;;) {
        /* Each object is one of its kind in each of the processes, which are alike: the first one tells. */
        for (int index = 0; index < MANY; index++, made(maker, times++)) pidfds[index] = make_pidfd();
        for (int index = 0; index < MANY; index++, made(maker, times++)) timers[index] = make_timer();
        for (int index = 0; index < MANY; index++, made(maker, times++)) queues[index] = make_queue();
        for (int index = 0; index < MANY; index++, made(maker, times++)) sets[index] = make_semaphore();
        for (int index = 0; index < SOME_FILES; index++, made(maker, times++)) {
            sprintf(name, "/named-%d-%d", getpid(), index);
            named[index] = make_named(name);
        }
        for (int index = 0; index < SOME_FILES; index++) {
            sprintf(name, "/named-%d-%d", getpid(), index);
            if (mq_close(named[index]) || mq_unlink(name)) fail("mq_unlink");
        }
        for (int index = 0; index < MANY; index++) {
            close(pidfds[index]);
            remove_timer(timers[index]);
            if (msgctl(queues[index], IPC_RMID, NULL) || semctl(sets[index], 0, IPC_RMID)) fail("remove");
        }
    }
}

int main(int count, char **arguments) {
    const char *mode = count > 1 ? arguments[1] : "";
    setvbuf(stdout, NULL, _IOLBF, 0);
    /* Linux counts timers by user, and all tenants are the same one there. */
    allow(RLIMIT_SIGPENDING, 4 * MAKERS * MANY);
    if (!strcmp(mode, "use")) neighbour();
    if (!strcmp(mode, "rest")) rest();
    if (!strcmp(mode, "make")) make();
    fail("mode");
}
