/* Semaphores of System V: values, operations that are done together, waits and how they end, what is taken back, limits. */
#include "check.h"
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <sys/fsuid.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

union semun {
    int val;
    struct semid_ds *buf;
    unsigned short *array;
    struct seminfo *info;
};

static int op(int set, int index, int change, int flags) {
    struct sembuf one = {index, change, flags};
    return semop(set, &one, 1);
}

static int timed(int set, int index, int change, long ms) {
    struct sembuf one = {index, change, 0};
    struct timespec limit = {ms / 1000, ms % 1000 * 1000000L};
    return semtimedop(set, &one, 1, &limit);
}

static int get(int set, int index) { return semctl(set, index, GETVAL); }
static void put(int set, int index, int value) { CHECK(semctl(set, index, SETVAL, (union semun){.val = value}) == 0); }
static void remove_set(int set) { CHECK(semctl(set, 0, IPC_RMID) == 0); }

static int make(int count) {
    int set = semget(IPC_PRIVATE, count, 0600);
    CHECK(set >= 0);
    return set;
}

/* A child that does one operation and ends with 0, or with the error. */
static pid_t child_op(int set, int index, int change, int flags) {
    pid_t child = fork();
    if (child == 0) _exit(op(set, index, change, flags) == 0 ? 0 : errno);
    return child;
}

static void until_waiters(int set, int index, int command, int count) {
    while (semctl(set, index, command) != count) sleep_ms(1);
}

static void keys(void) {
    key_t key = 0x67797265;
    int old = semget(key, 0, 0);
    if (old >= 0) remove_set(old);
    FAILS(semget(key, 1, 0600), ENOENT);
    int set = semget(key, 3, IPC_CREAT | IPC_EXCL | 0640);
    CHECK(set >= 0 && semget(key, 0, 0) == set && semget(key, 3, IPC_CREAT) == set);
    FAILS(semget(key, 3, IPC_CREAT | IPC_EXCL), EEXIST);
    FAILS(semget(key, 4, 0), EINVAL);
    FAILS(semget(IPC_PRIVATE, 0, 0600), EINVAL);
    FAILS(semget(IPC_PRIVATE, -1, 0600), EINVAL);
    FAILS(semget(IPC_PRIVATE, INT_MAX, 0600), EINVAL);
    FAILS(semget(IPC_PRIVATE, 32001, 0600), EINVAL);
    struct semid_ds status;
    CHECK(semctl(set, 0, IPC_STAT, (union semun){.buf = &status}) == 0);
    CHECK(status.sem_nsems == 3 && status.sem_perm.__key == key && (status.sem_perm.mode & 0777) == 0640);
    CHECK(status.sem_otime == 0 && status.sem_ctime != 0 && status.sem_perm.uid == geteuid());
    CHECK(op(set, 0, 1, 0) == 0);
    status.sem_perm.mode = 0600;
    CHECK(semctl(set, 0, IPC_SET, (union semun){.buf = &status}) == 0);
    CHECK(semctl(set, 0, IPC_STAT, (union semun){.buf = &status}) == 0);
    CHECK((status.sem_perm.mode & 0777) == 0600 && status.sem_otime != 0);
    remove_set(set);
    FAILS(semctl(set, 0, IPC_STAT, (union semun){.buf = &status}), EINVAL);
    FAILS(op(set, 0, 1, 0), EINVAL);
    FAILS(semget(key, 1, 0), ENOENT);
    int next = semget(key, 1, IPC_CREAT | 0600);
    CHECK(next >= 0 && next != set);
    remove_set(next);
}

static void values(void) {
    int set = make(3);
    unsigned short all[3] = {1, 2, 32767};
    CHECK(get(set, 0) == 0 && semctl(set, 0, GETPID) == 0);
    CHECK(semctl(set, 0, SETALL, (union semun){.array = all}) == 0);
    memset(all, 0, sizeof all);
    CHECK(semctl(set, 0, GETALL, (union semun){.array = all}) == 0 && all[0] == 1 && all[1] == 2 && all[2] == 32767);
    CHECK(semctl(set, 1, GETPID) == getpid());
    FAILS(op(set, 2, 1, 0), ERANGE);
    FAILS(op(set, 2, 32767, IPC_NOWAIT), ERANGE);
    all[1] = 32768;
    FAILS(semctl(set, 0, SETALL, (union semun){.array = all}), ERANGE);
    FAILS(semctl(set, 0, SETVAL, (union semun){.val = 32768}), ERANGE);
    FAILS(semctl(set, 0, SETVAL, (union semun){.val = -1}), ERANGE);
    FAILS(semctl(set, 3, SETVAL, (union semun){.val = 1}), EINVAL);
    FAILS(semctl(set, -1, GETVAL), EINVAL);
    FAILS(semctl(set, 3, GETNCNT), EINVAL);
    FAILS(semctl(set, 0, 999), EINVAL);
    FAILS(semctl(-1, 0, GETVAL), EINVAL);
    FAILS(semctl(INT_MAX, 0, GETVAL), EINVAL);
    FAILS(semctl(set, 0, SETALL, (union semun){.array = (void *)1}), EFAULT);
    FAILS(semctl(set, 0, GETALL, (union semun){.array = (void *)1}), EFAULT);
    FAILS(semctl(set, 0, IPC_STAT, (union semun){.buf = (void *)1}), EFAULT);
    FAILS(op(set, 3, 1, 0), EFBIG);
    FAILS(op(set, 0xffff, 1, 0), EFBIG);
    FAILS(op(-1, 0, 1, 0), EINVAL);
    FAILS(semop(set, (void *)1, 1), EFAULT);
    static struct sembuf many[501];
    FAILS(semop(set, many, 0), EINVAL);
    FAILS(semop(set, many, 501), E2BIG);
    FAILS(semop(set, many, (size_t)-1), E2BIG);
    /* 500 are done together; one semaphore may occur often. */
    put(set, 0, 0);
    for (int i = 0; i < 500; i++) many[i] = (struct sembuf){0, i % 2 ? -1 : 1, 0};
    CHECK(semop(set, many, 500) == 0 && get(set, 0) == 0);
    /* None is done if one cannot be. */
    struct sembuf two[2] = {{0, 5, SEM_UNDO}, {1, -3, IPC_NOWAIT}};
    FAILS(semop(set, two, 2), EAGAIN);
    CHECK(get(set, 0) == 0 && get(set, 1) == 2);
    two[1] = (struct sembuf){2, 1, 0};
    FAILS(semop(set, two, 2), ERANGE);
    CHECK(get(set, 0) == 0);
    FAILS(op(set, 1, 0, IPC_NOWAIT), EAGAIN);
    CHECK(op(set, 0, 0, IPC_NOWAIT) == 0);
    remove_set(set);
}

static volatile sig_atomic_t rings;
static void ring(int signal) { rings++; }

static void waits(void) {
    int set = make(2);
    FAILS(timed(set, 0, -1, 20), EAGAIN);
    FAILS(timed(set, 0, -1, 0), EAGAIN);
    struct timespec bad = {0, 1000000000};
    struct sembuf one = {0, -1, 0};
    FAILS(semtimedop(set, &one, 1, &bad), EINVAL);
    bad = (struct timespec){-1, 0};
    FAILS(semtimedop(set, &one, 1, &bad), EINVAL);
    FAILS(semtimedop(set, &one, 1, (void *)1), EFAULT);
    /* Never restarted, whatever SA_RESTART says. */
    struct sigaction action = {.sa_handler = ring, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    arm_often(20);
    FAILS(op(set, 0, -1, 0), EINTR);
    FAILS(timed(set, 0, -1, 60000), EINTR);
    arm_often(0);
    CHECK(rings > 0 && semctl(set, 0, GETNCNT) == 0);
    /* A waiter is counted, and the process that makes its operation possible does it. */
    pid_t taker = child_op(set, 0, -2, 0), zero = child_op(set, 1, 0, 0);
    until_waiters(set, 0, GETNCNT, 1);
    CHECK(semctl(set, 0, GETZCNT) == 0);
    CHECK(status_of(zero) == 0);
    put(set, 1, 1);
    zero = child_op(set, 1, 0, 0);
    until_waiters(set, 1, GETZCNT, 1);
    CHECK(op(set, 0, 1, 0) == 0 && semctl(set, 0, GETNCNT) == 1);
    CHECK(op(set, 0, 1, 0) == 0 && status_of(taker) == 0 && get(set, 0) == 0);
    CHECK(semctl(set, 0, GETPID) == taker);
    CHECK(op(set, 1, -1, 0) == 0 && status_of(zero) == 0);
    /* A unit that is given is the waiter's, and does not go to the next that asks. */
    taker = child_op(set, 0, -1, 0);
    until_waiters(set, 0, GETNCNT, 1);
    CHECK(op(set, 0, 1, 0) == 0);
    FAILS(op(set, 0, -1, IPC_NOWAIT), EAGAIN);
    CHECK(status_of(taker) == 0);
    /* A small wish passes a large one that waits, in line. */
    pid_t large = child_op(set, 0, -5, 0);
    until_waiters(set, 0, GETNCNT, 1);
    pid_t small = child_op(set, 0, -1, 0);
    until_waiters(set, 0, GETNCNT, 2);
    CHECK(op(set, 0, 1, 0) == 0 && status_of(small) == 0 && semctl(set, 0, GETNCNT) == 1);
    put(set, 0, 5);
    CHECK(status_of(large) == 0 && get(set, 0) == 0);
    /* Several operations wait for the first that cannot be done, and are counted there. */
    pid_t both = fork();
    if (both == 0) {
        struct sembuf two[2] = {{0, -1, 0}, {1, -1, 0}};
        _exit(semop(set, two, 2) == 0 ? 0 : errno);
    }
    until_waiters(set, 0, GETNCNT, 1);
    CHECK(op(set, 0, 1, 0) == 0);
    until_waiters(set, 1, GETNCNT, 1);
    CHECK(semctl(set, 0, GETNCNT) == 0 && get(set, 0) == 1);
    CHECK(op(set, 1, 1, 0) == 0 && status_of(both) == 0 && get(set, 0) == 0 && get(set, 1) == 0);
    /* A later one of them must not wait. */
    both = fork();
    if (both == 0) {
        struct sembuf two[2] = {{0, -1, 0}, {1, -1, IPC_NOWAIT}};
        _exit(semop(set, two, 2) == 0 ? 0 : errno);
    }
    until_waiters(set, 0, GETNCNT, 1);
    CHECK(op(set, 0, 1, 0) == 0);
    int status = status_of(both);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == EAGAIN && get(set, 0) == 1);
    /* A killed waiter leaves nothing. */
    put(set, 0, 0);
    taker = child_op(set, 0, -1, SEM_UNDO);
    until_waiters(set, 0, GETNCNT, 1);
    CHECK(kill(taker, SIGKILL) == 0);
    status_of(taker);
    CHECK(semctl(set, 0, GETNCNT) == 0 && op(set, 0, 1, 0) == 0 && get(set, 0) == 1);
    /* The end of the set ends all waits. */
    pid_t waiters[5];
    for (int i = 0; i < 5; i++) waiters[i] = child_op(set, i % 2, i % 2 ? -1 : -2, 0);
    until_waiters(set, 0, GETNCNT, 3);
    until_waiters(set, 1, GETNCNT, 2);
    remove_set(set);
    for (int i = 0; i < 5; i++) {
        status = status_of(waiters[i]);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == EIDRM);
    }
}

/* The first to come is served first. */
static void order(void) {
    enum { COUNT = 12 };
    int set = make(1), pipes[2];
    pid_t waiters[COUNT];
    CHECK(pipe(pipes) == 0);
    for (int i = 0; i < COUNT; i++) {
        waiters[i] = child_op(set, 0, -1, 0);
        until_waiters(set, 0, GETNCNT, i + 1);
    }
    for (int i = 0; i < COUNT; i++) {
        CHECK(op(set, 0, 1, 0) == 0);
        CHECK(status_of(waiters[i]) == 0);
    }
    remove_set(set);
}

static int share_and_end(void *set) {
    op(*(int *)set, 0, 3, SEM_UNDO);
    return 0;
}

static void undo(const char *self) {
    int set = make(2);
    put(set, 0, 10);
    pid_t child = child_op(set, 0, -4, SEM_UNDO);
    CHECK(status_of(child) == 0 && get(set, 0) == 10 && semctl(set, 0, GETPID) == child);
    child = fork();
    if (child == 0) {
        CHECK(op(set, 0, -4, SEM_UNDO) == 0 && op(set, 1, 7, SEM_UNDO) == 0);
        /* Not inherited. */
        pid_t other = fork();
        if (other == 0) _exit(0);
        CHECK(status_of(other) == 0 && get(set, 0) == 6);
        kill(getpid(), SIGKILL);
    }
    int status = status_of(child);
    CHECK(WIFSIGNALED(status) && get(set, 0) == 10 && get(set, 1) == 0);
    /* A new program keeps it. */
    child = fork();
    if (child == 0) {
        CHECK(op(set, 0, -4, SEM_UNDO) == 0);
        char number[16];
        snprintf(number, sizeof number, "%d", set);
        execl(self, self, number, NULL);
        _exit(1);
    }
    CHECK(status_of(child) == 0 && get(set, 0) == 10);
    /* SETVAL and SETALL make it void. */
    child = fork();
    if (child == 0) {
        CHECK(op(set, 0, -4, SEM_UNDO) == 0 && op(set, 1, 1, SEM_UNDO) == 0);
        put(set, 0, 3);
        _exit(0);
    }
    CHECK(status_of(child) == 0 && get(set, 0) == 3 && get(set, 1) == 0);
    /* The end makes others go on. */
    put(set, 0, 1);
    child = fork();
    if (child == 0) {
        CHECK(op(set, 0, -1, SEM_UNDO) == 0);
        pause();
    }
    while (get(set, 0) != 0) sleep_ms(1);
    pid_t taker = child_op(set, 0, -1, 0);
    until_waiters(set, 0, GETNCNT, 1);
    CHECK(kill(child, SIGKILL) == 0);
    status_of(child);
    CHECK(status_of(taker) == 0);
    /* A value does not go below zero. */
    put(set, 0, 0);
    child = fork();
    if (child == 0) {
        CHECK(op(set, 0, 5, SEM_UNDO) == 0 && op(set, 0, -3, 0) == 0);
        _exit(0);
    }
    CHECK(status_of(child) == 0 && get(set, 0) == 0);
    /* It has a range. */
    child = fork();
    if (child == 0) {
        CHECK(op(set, 0, 32767, SEM_UNDO) == 0 && op(set, 0, -32767, 0) == 0 && op(set, 0, 1, SEM_UNDO) == 0);
        FAILS(op(set, 0, 1, SEM_UNDO), ERANGE);
        CHECK(get(set, 0) == 1);
        _exit(0);
    }
    CHECK(status_of(child) == 0 && get(set, 0) == 0);
    /* CLONE_SYSVSEM: the last of both takes back. */
    static char stack[65536];
    child = fork();
    if (child == 0) {
        CHECK(op(set, 0, 1, SEM_UNDO) == 0);
        pid_t sharer = clone(share_and_end, stack + sizeof stack, CLONE_SYSVSEM | SIGCHLD, &set);
        CHECK(status_of(sharer) == 0 && get(set, 0) == 4);
        _exit(0);
    }
    CHECK(status_of(child) == 0 && get(set, 0) == 0);
    /* A set that is gone is no harm. */
    child = fork();
    if (child == 0) {
        for (int i = 0; i < 300; i++) {
            int own = make(1);
            CHECK(op(own, 0, 1, SEM_UNDO) == 0);
            remove_set(own);
        }
        _exit(0);
    }
    CHECK(status_of(child) == 0);
    remove_set(set);
}

static void *thread_takes(void *set) {
    return (void *)(long)op(*(int *)set, 0, -1, SEM_UNDO);
}

static void threads(void) {
    int set = make(1);
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        void *answer;
        CHECK(pthread_create(&thread, NULL, thread_takes, &set) == 0);
        until_waiters(set, 0, GETNCNT, 1);
        CHECK(op(set, 0, 1, 0) == 0 && pthread_join(thread, &answer) == 0 && answer == NULL);
        /* The process lives: nothing is taken back. */
        CHECK(get(set, 0) == 0);
        _exit(0);
    }
    CHECK(status_of(child) == 0 && get(set, 0) == 1);
    remove_set(set);
}

static void limits(void) {
    struct seminfo info;
    int highest = semctl(0, 0, IPC_INFO, (union semun){.info = &info});
    CHECK(highest >= 0 && info.semmni == 32000 && info.semmsl == 32000 && info.semopm == 500 && info.semvmx == 32767);
    CHECK(info.semmns == 1024000000 && info.semaem == 32767);
    int set = make(7);
    highest = semctl(0, 0, SEM_INFO, (union semun){.info = &info});
    CHECK(highest >= 0 && info.semusz >= 1 && info.semaem >= 7);
    int found = 0;
    struct semid_ds status;
    for (int index = 0; index <= highest; index++) {
        int number = semctl(index, 0, SEM_STAT, (union semun){.buf = &status});
        if (number == set) found += status.sem_nsems == 7 && semctl(index, 0, 20 /* SEM_STAT_ANY */, &status) == set;
    }
    CHECK(found == 1);
    FAILS(semctl(0, 0, IPC_INFO, (union semun){.info = (void *)1}), EFAULT);
    char text[64] = {0};
    int file = open("/proc/sys/kernel/sem", O_RDONLY);
    CHECK(file >= 0 && read(file, text, 63) > 0 && !strcmp(text, "32000\t1024000000\t500\t32000\n"));
    close(file);
    char line[256], wanted[32];
    snprintf(wanted, sizeof wanted, " %d ", set);
    FILE *list = fopen("/proc/sysvipc/sem", "r");
    found = 0;
    while (fgets(line, sizeof line, list)) found += strstr(line, wanted) != NULL;
    fclose(list);
    CHECK(found == 1);
    remove_set(set);
    /* The largest set. */
    int large = semget(IPC_PRIVATE, 32000, 0600);
    CHECK(large >= 0 && op(large, 31999, 1, SEM_UNDO) == 0 && get(large, 31999) == 1 && get(large, 31998) == 0);
    FAILS(op(large, 32000, 1, 0), EFBIG);
    remove_set(large);
}

static void rights(void) {
    if (geteuid() != 0) return;
    int set = make(1), readable = semget(IPC_PRIVATE, 1, 0644);
    pid_t child = fork();
    if (child == 0) {
        CHECK(setgid(1234) == 0 && setuid(1234) == 0);
        struct semid_ds status;
        FAILS(semctl(set, 0, GETVAL), EACCES);
        FAILS(semctl(set, 0, IPC_STAT, (union semun){.buf = &status}), EACCES);
        FAILS(op(set, 0, 1, 0), EACCES);
        FAILS(semctl(set, 0, SETVAL, (union semun){.val = 1}), EACCES);
        FAILS(semctl(set, 0, IPC_RMID), EPERM);
        CHECK(semctl(readable, 0, GETVAL) == 0 && op(readable, 0, 0, IPC_NOWAIT) == 0);
        FAILS(op(readable, 0, 1, 0), EACCES);
        FAILS(semctl(readable, 0, IPC_RMID), EPERM);
        status.sem_perm.uid = 1234;
        FAILS(semctl(readable, 0, IPC_SET, (union semun){.buf = &status}), EPERM);
        _exit(0);
    }
    CHECK(status_of(child) == 0);
    remove_set(set);
    remove_set(readable);
    // A waiter is not asked for rights again.
    int open = semget(IPC_PRIVATE, 1, 0666);
    child = fork();
    if (child == 0) {
        CHECK(setgid(1234) == 0 && setuid(1234) == 0);
        _exit(op(open, 0, -1, 0) != 0);
    }
    until_waiters(open, 0, GETNCNT, 1);
    struct semid_ds status;
    CHECK(semctl(open, 0, IPC_STAT, (union semun){.buf = &status}) == 0);
    status.sem_perm.mode = 0600;
    CHECK(semctl(open, 0, IPC_SET, (union semun){.buf = &status}) == 0);
    put(open, 0, 1);
    CHECK(status_of(child) == 0);
    remove_set(open);
}

/* A process that is killed while it waits takes nothing. */
static void killed(void) {
    int set = make(1);
    pid_t child = fork();
    if (child == 0) _exit(timed(set, 0, -1, 100000) == 0);
    until_waiters(set, 0, GETNCNT, 1);
    CHECK(kill(child, SIGKILL) == 0 && WIFSIGNALED(status_of(child)));
    CHECK(semctl(set, 0, GETNCNT) == 0 && op(set, 0, 1, 0) == 0 && get(set, 0) == 1 && timed(set, 0, -1, 1) == 0);
    remove_set(set);
}

/* Effective ids count, not those of file systems. */
static void effective(void) {
    if (geteuid() != 0) return;
    pid_t child = fork();
    if (child == 0) {
        setfsgid(1234), setfsuid(1234);
        struct semid_ds sem;
        struct msqid_ds queue;
        struct shmid_ds segment;
        int closed = make(1), messages = msgget(IPC_PRIVATE, 0600), memory = shmget(IPC_PRIVATE, 4096, 0600);
        CHECK(messages >= 0 && memory >= 0);
        CHECK(semctl(closed, 0, IPC_STAT, (union semun){.buf = &sem}) == 0 && sem.sem_perm.uid == 0 && sem.sem_perm.cgid == 0);
        CHECK(msgctl(messages, IPC_STAT, &queue) == 0 && queue.msg_perm.cuid == 0 && queue.msg_perm.gid == 0);
        CHECK(shmctl(memory, IPC_STAT, &segment) == 0 && segment.shm_perm.uid == 0 && segment.shm_perm.gid == 0);
        // Its owner is root, and the one that asks is 1234 for all but file systems.
        CHECK(setresgid(0, 1234, 0) == 0 && setresuid(0, 1234, 0) == 0);
        setfsuid(0), setfsgid(0);
        CHECK(setfsuid(-1) == 0 && setfsgid(-1) == 0);
        FAILS(get(closed, 0), EACCES);
        FAILS(op(closed, 0, 1, 0), EACCES);
        FAILS(semctl(closed, 0, IPC_RMID), EPERM);
        FAILS(msgctl(messages, IPC_STAT, &queue), EACCES);
        FAILS(msgctl(messages, IPC_RMID, NULL), EPERM);
        FAILS(shmat(memory, NULL, 0), EACCES);
        FAILS(shmctl(memory, IPC_RMID, NULL), EPERM);
        CHECK(setresuid(0, 0, 0) == 0);
        remove_set(closed);
        CHECK(msgctl(messages, IPC_RMID, NULL) == 0 && shmctl(memory, IPC_RMID, NULL) == 0);
        _exit(0);
    }
    CHECK(status_of(child) == 0);
}

/* Many processes, each takes and gives: none is lost, and never two are inside. */
static void crowd(void) {
    enum { COUNT = 8, ROUNDS = 100 };
    int set = make(2);
    pid_t children[COUNT];
    put(set, 0, 1);
    for (int i = 0; i < COUNT; i++) {
        if ((children[i] = fork())) continue;
        for (int round = 0; round < ROUNDS; round++) {
            CHECK(op(set, 0, -1, SEM_UNDO) == 0);
            CHECK(op(set, 1, 0, IPC_NOWAIT) == 0 && op(set, 1, 1, 0) == 0 && op(set, 1, -1, 0) == 0);
            CHECK(op(set, 0, 1, SEM_UNDO) == 0);
        }
        _exit(0);
    }
    for (int i = 0; i < COUNT; i++) CHECK(status_of(children[i]) == 0);
    CHECK(get(set, 0) == 1 && get(set, 1) == 0);
    remove_set(set);
}

int main(int count, char **arguments) {
    if (count == 2) return get(atoi(arguments[1]), 0) == 6 ? 0 : 1;
    char self[256] = {0};
    CHECK(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    keys();
    values();
    waits();
    order();
    undo(self);
    threads();
    limits();
    rights();
    killed();
    effective();
    crowd();
    done("semaphores");
    return 0;
}
