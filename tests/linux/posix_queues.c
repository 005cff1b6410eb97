/* POSIX message queues: names, priorities, waits and how they end, notices, descriptors, limits. */
#include "check.h"
#include <limits.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define NAME "/gyre-queue"

static mqd_t make_of(long messages, long bytes, int flags) {
    struct mq_attr size = {.mq_maxmsg = messages, .mq_msgsize = bytes};
    mq_unlink(NAME);
    mqd_t queue = mq_open(NAME, O_RDWR | O_CREAT | O_EXCL | flags, 0600, &size);
    CHECK(queue >= 0);
    return queue;
}

static void end(mqd_t queue) { CHECK(mq_close(queue) == 0 && mq_unlink(NAME) == 0); }

static int sends(mqd_t queue, const char *text, unsigned priority) { return mq_send(queue, text, strlen(text), priority); }

static char got_text[8193];
static unsigned got_priority;
static const char *got(mqd_t queue) {
    ssize_t bytes = mq_receive(queue, got_text, 8192, &got_priority);
    if (bytes < 0) return NULL;
    got_text[bytes] = 0;
    return got_text;
}
#define GETS(queue, wanted, priority)                                                        \
    do {                                                                                     \
        const char *text_ = got(queue);                                                      \
        CHECK(text_ != NULL && !strcmp(text_, wanted) && got_priority == (priority));        \
    } while (0)

static long count_of(mqd_t queue) {
    struct mq_attr attributes;
    CHECK(mq_getattr(queue, &attributes) == 0);
    return attributes.mq_curmsgs;
}

static struct timespec in_ms(long ms) {
    struct timespec t;
    CHECK(clock_gettime(CLOCK_REALTIME, &t) == 0);
    t.tv_nsec += ms * 1000000;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

static void names(void) {
    mq_unlink(NAME);
    FAILS(mq_open(NAME, O_RDWR), ENOENT);
    FAILS(mq_unlink(NAME), ENOENT);
    FAILS(mq_open("/", O_RDWR), ENOENT);
    FAILS(mq_open("/a/b", O_RDWR | O_CREAT, 0600, NULL), EACCES);
    FAILS(mq_open("/..", O_RDWR | O_CREAT, 0600, NULL), EACCES);
    char name[300] = "/";
    memset(name + 1, 'a', 256);
    FAILS(mq_open(name, O_RDWR | O_CREAT, 0600, NULL), ENAMETOOLONG);
    FAILS(mq_unlink(name), ENAMETOOLONG);
    FAILS(syscall(SYS_mq_open, (char *)1, O_RDWR, 0, NULL), EFAULT);
    FAILS(syscall(SYS_mq_open, "gyre", O_RDWR, 0, (void *)1), EFAULT);
    name[256] = 0;
    mqd_t queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, NULL);
    CHECK(queue >= 0 && mq_unlink(name) == 0 && mq_close(queue) == 0);
    /* The usual size, and one of one's own. */
    queue = mq_open(NAME, O_RDWR | O_CREAT | O_EXCL, 0600, NULL);
    struct mq_attr attributes;
    CHECK(queue >= 0 && mq_getattr(queue, &attributes) == 0);
    CHECK(attributes.mq_maxmsg == 10 && attributes.mq_msgsize == 8192 && attributes.mq_curmsgs == 0 && attributes.mq_flags == 0);
    FAILS(mq_open(NAME, O_RDWR | O_CREAT | O_EXCL, 0600, NULL), EEXIST);
    FAILS(mq_open(NAME, O_ACCMODE), EINVAL);
    mqd_t other = mq_open(NAME, O_RDONLY | O_CREAT | O_NONBLOCK, 0600, NULL);
    CHECK(other >= 0 && sends(queue, "hello", 3) == 0 && count_of(other) == 1);
    /* It lives until its last descriptor is closed. */
    CHECK(mq_unlink(NAME) == 0);
    FAILS(mq_open(NAME, O_RDWR), ENOENT);
    mqd_t new = mq_open(NAME, O_RDWR | O_CREAT | O_EXCL, 0600, NULL);
    CHECK(new >= 0 && count_of(new) == 0);
    end(new);
    GETS(other, "hello", 3);
    CHECK(got(other) == NULL && errno == EAGAIN);
    FAILS(sends(other, "x", 0), EBADF);
    CHECK(mq_close(queue) == 0 && mq_close(other) == 0);
    struct mq_attr sizes[] = {{0, 0, 10}, {0, 10, 0}, {0, -1, 10}, {0, 10, -1}, {0, LONG_MAX, 10}, {0, 10, LONG_MAX}, {0, 65537, 1}, {0, 1, 16777217}};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) FAILS(mq_open(NAME, O_RDWR | O_CREAT | O_EXCL, 0600, &sizes[i]), EINVAL);
}

static void order(void) {
    mqd_t queue = make_of(8, 100, O_NONBLOCK);
    const char *texts[] = {"a1", "b5", "c1", "d5", "e9", "f0"};
    for (int i = 0; i < 6; i++) CHECK(sends(queue, texts[i], texts[i][1] - '0') == 0);
    CHECK(count_of(queue) == 6);
    const char *wanted[] = {"e9", "b5", "d5", "a1", "c1", "f0"};
    for (int i = 0; i < 6; i++) GETS(queue, wanted[i], (unsigned)(wanted[i][1] - '0'));
    CHECK(sends(queue, "top", 32767) == 0);
    FAILS(sends(queue, "x", 32768), EINVAL);
    FAILS(sends(queue, "x", -1), EINVAL);
    GETS(queue, "top", 32767u);
    char text[101] = {0};
    FAILS(mq_send(queue, text, 101, 0), EMSGSIZE);
    FAILS(mq_send(queue, text, (size_t)-1, 0), EMSGSIZE);
    FAILS(mq_receive(queue, text, 99, NULL), EMSGSIZE);
    FAILS(mq_send(queue, (void *)1, 10, 0), EFAULT);
    CHECK(mq_send(queue, text, 0, 0) == 0 && mq_receive(queue, text, 100, NULL) == 0);
    for (int i = 0; i < 8; i++) CHECK(sends(queue, "full", i) == 0);
    FAILS(sends(queue, "full", 9), EAGAIN);
    FAILS(mq_send(99, text, 1, 0), EBADF);
    FAILS(mq_send(1, text, 1, 0), EBADF);
    FAILS(mq_send(-1, text, 1, 0), EBADF);
    FAILS(mq_receive(1, text, 1, 0), EBADF);
    FAILS(mq_notify(1, NULL), EBADF);
    struct mq_attr attributes;
    FAILS(mq_getattr(1, &attributes), EBADF);
    end(queue);
}

static volatile sig_atomic_t rings;
static void ring(int signal) { rings++; }

/* A child that receives one message, and ends with 0 if it is the wanted one. */
static pid_t child_receives(mqd_t queue, const char *wanted) {
    pid_t child = fork();
    if (child == 0) _exit(got(queue) == NULL ? errno : strcmp(got_text, wanted) ? 200 : 0);
    until_it_waits(child);
    return child;
}

static void waits(void) {
    mqd_t queue = make_of(2, 8192, 0);
    struct timespec soon = in_ms(20), bad = {0, 1000000000}, past = {0, 0};
    char text[8192];
    FAILS(mq_timedreceive(queue, text, 8192, NULL, &soon), ETIMEDOUT);
    FAILS(mq_timedreceive(queue, text, 8192, NULL, &past), ETIMEDOUT);
    FAILS(mq_timedreceive(queue, text, 8192, NULL, &bad), EINVAL);
    bad = (struct timespec){-1, 0};
    FAILS(mq_timedreceive(queue, text, 8192, NULL, &bad), EINVAL);
    FAILS(syscall(SYS_mq_timedreceive, queue, text, 8192, NULL, (void *)1), EFAULT);
    CHECK(sends(queue, "1", 1) == 0 && mq_timedsend(queue, "2", 1, 2, &past) == 0);
    soon = in_ms(20);
    FAILS(mq_timedsend(queue, "3", 1, 3, &soon), ETIMEDOUT);
    FAILS(mq_timedsend(queue, "3", 1, 3, &past), ETIMEDOUT);
    FAILS(mq_timedsend(queue, "3", 1, 3, &bad), EINVAL);
    /* A handler without SA_RESTART ends a wait. */
    struct sigaction action = {.sa_handler = ring};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    arm_often(20);
    FAILS(sends(queue, "3", 3), EINTR);
    GETS(queue, "2", 2u);
    GETS(queue, "1", 1u);
    FAILS(mq_receive(queue, text, 8192, NULL), EINTR);
    /* One with it does not. */
    action.sa_flags = SA_RESTART;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    soon = in_ms(100);
    rings = 0;
    FAILS(mq_timedreceive(queue, text, 8192, NULL, &soon), ETIMEDOUT);
    arm_often(0);
    CHECK(rings > 0);
    /* A message goes to who waits, the first in line first, and not to who asks next. */
    pid_t first = child_receives(queue, "one"), second = child_receives(queue, "two");
    CHECK(sends(queue, "one", 0) == 0 && status_of(first) == 0);
    CHECK(sends(queue, "two", 0) == 0 && count_of(queue) == 0 && status_of(second) == 0);
    /* A killed receiver takes nothing. */
    first = child_receives(queue, "");
    CHECK(kill(first, SIGKILL) == 0);
    status_of(first);
    CHECK(sends(queue, "kept", 0) == 0 && count_of(queue) == 1);
    /* Senders wait in line; a killed one sends nothing. */
    CHECK(sends(queue, "full", 0) == 0);
    pid_t killed = fork();
    if (killed == 0) _exit(sends(queue, "killed", 9));
    until_it_waits(killed);
    pid_t sender = fork();
    if (sender == 0) _exit(sends(queue, "sent", 5) == 0 ? 0 : errno);
    until_it_waits(sender);
    CHECK(kill(killed, SIGKILL) == 0);
    status_of(killed);
    GETS(queue, "kept", 0u);
    CHECK(status_of(sender) == 0 && count_of(queue) == 2);
    GETS(queue, "sent", 5u);
    GETS(queue, "full", 0u);
    end(queue);
}

static volatile sig_atomic_t told_value, told_code, told_sender;
static void told(int signal, siginfo_t *info, void *context) {
    told_value = info->si_value.sival_int;
    told_code = info->si_code;
    told_sender = info->si_pid;
    rings++;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int thread_value;
static void in_thread(union sigval value) {
    pthread_mutex_lock(&lock);
    thread_value = value.sival_int;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
}

static void notices(void) {
    mqd_t queue = make_of(4, 100, O_NONBLOCK);
    char text[101];
    struct sigaction action = {.sa_sigaction = told, .sa_flags = SA_SIGINFO | SA_RESTART};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 4711};
    rings = 0;
    CHECK(mq_notify(queue, &event) == 0);
    FAILS(mq_notify(queue, &event), EBUSY);
    pid_t child = fork();
    if (child == 0) {
        FAILS(mq_notify(queue, &event), EBUSY);
        CHECK(mq_notify(queue, NULL) == 0 && mq_close(queue) == 0);
        FAILS(mq_notify(queue, &event), EBADF);
        _exit(0);
    }
    CHECK(status_of(child) == 0);
    child = fork();
    if (child == 0) _exit(sends(queue, "x", 0) == 0 ? 0 : errno);
    CHECK(status_of(child) == 0);
    while (rings == 0) sleep_ms(1);
    CHECK(rings == 1 && told_value == 4711 && told_code == SI_MESGQ && told_sender == child);
    /* Once, and only if the queue was empty. */
    CHECK(mq_notify(queue, &event) == 0 && sends(queue, "y", 0) == 0);
    sleep_ms(20);
    CHECK(rings == 1);
    CHECK(mq_receive(queue, text, 100, NULL) == 1 && mq_receive(queue, text, 100, NULL) == 1);
    CHECK(sends(queue, "z", 0) == 0);
    while (rings == 1) sleep_ms(1);
    CHECK(mq_receive(queue, text, 100, NULL) == 1 && sends(queue, "z", 0) == 0);
    sleep_ms(20);
    CHECK(rings == 2 && mq_receive(queue, text, 100, NULL) == 1);
    /* A process that waits is served first. */
    mqd_t waiting = mq_open(NAME, O_RDWR);
    CHECK(waiting >= 0);
    child = child_receives(waiting, "for you");
    if (child > 0) CHECK(mq_notify(queue, &event) == 0 && sends(queue, "for you", 0) == 0);
    int status = status_of(child);
    /* Its buffer is as long as it must be. */
    CHECK(status == 0);
    sleep_ms(20);
    CHECK(rings == 2);
    FAILS(mq_notify(queue, &event), EBUSY);
    /* Closing any descriptor ends it, and so does NULL. */
    CHECK(mq_close(waiting) == 0 && mq_notify(queue, &event) == 0 && mq_notify(queue, NULL) == 0);
    CHECK(mq_notify(queue, NULL) == 0 && sends(queue, "z", 0) == 0 && mq_receive(queue, text, 100, NULL) == 1);
    sleep_ms(20);
    CHECK(rings == 2);
    /* The end of a process ends its own. */
    child = fork();
    if (child == 0) {
        CHECK(mq_notify(queue, &event) == 0);
        kill(getpid(), SIGKILL);
    }
    status_of(child);
    CHECK(mq_notify(queue, &event) == 0 && mq_notify(queue, NULL) == 0);
    /* A new program has no notice: its descriptor is closed. */
    int pipes[2], registered[2];
    CHECK(pipe(pipes) == 0 && pipe(registered) == 0);
    child = fork();
    if (child == 0) {
        CHECK(mq_notify(queue, &event) == 0 && write(registered[1], "r", 1) == 1);
        dup2(pipes[0], 0);
        close(pipes[1]);
        char self[256] = {0};
        CHECK(readlink("/proc/self/exe", self, 255) > 0);
        execl(self, self, "waits", NULL);
        _exit(1);
    }
    /* The notice must be the child's before this process asks for it. */
    CHECK(read(registered[0], text, 1) == 1 && close(registered[0]) == 0 && close(registered[1]) == 0);
    for (;;) {
        if (mq_notify(queue, &event) == 0) break;
        CHECK(errno == EBUSY);
        sleep_ms(1);
    }
    CHECK(mq_notify(queue, NULL) == 0);
    close(pipes[1]);
    CHECK(status_of(child) == 0);
    /* Nothing, and nonsense. */
    event.sigev_notify = SIGEV_NONE;
    CHECK(mq_notify(queue, &event) == 0);
    FAILS(mq_notify(queue, &event), EBUSY);
    CHECK(sends(queue, "z", 0) == 0 && mq_notify(queue, &event) == 0 && mq_notify(queue, NULL) == 0);
    CHECK(mq_receive(queue, text, 100, NULL) == 1);
    event = (struct sigevent){.sigev_notify = 77};
    FAILS(mq_notify(queue, &event), EINVAL);
    event = (struct sigevent){.sigev_notify = SIGEV_SIGNAL, .sigev_signo = 65};
    FAILS(mq_notify(queue, &event), EINVAL);
    event.sigev_signo = -1;
    FAILS(mq_notify(queue, &event), EINVAL);
    FAILS(syscall(SYS_mq_notify, queue, (void *)1), EFAULT);
    /* Signal 0 is none. */
    event = (struct sigevent){.sigev_notify = SIGEV_SIGNAL, .sigev_signo = 0};
    for (int i = 0; i < 8; i++) {
        CHECK(mq_notify(queue, &event) == 0 && sends(queue, "z", 0) == 0 && mq_receive(queue, text, 100, NULL) == 1);
    }
    sigset_t pending;
    CHECK(sigpending(&pending) == 0 && sigisemptyset(&pending));
    /* A thread. */
    event = (struct sigevent){.sigev_notify = SIGEV_THREAD, .sigev_notify_function = in_thread, .sigev_value.sival_int = 99};
    CHECK(mq_notify(queue, &event) == 0 && sends(queue, "z", 0) == 0);
    pthread_mutex_lock(&lock);
    while (thread_value != 99) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    CHECK(mq_receive(queue, text, 100, NULL) == 1 && mq_notify(queue, &event) == 0 && mq_notify(queue, NULL) == 0);
    end(queue);
}

/* A process without a place for a descriptor makes no queue. */
static void full_table(void) {
    struct rlimit before, few;
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    int next = dup(0);
    CHECK(next >= 0 && close(next) == 0);
    few = (struct rlimit){next, before.rlim_max};
    CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
    FAILS(mq_open(NAME, O_RDWR | O_CREAT, 0600, NULL), EMFILE);
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
    FAILS(mq_open(NAME, O_RDWR), ENOENT);
}

static short ready(mqd_t queue) {
    struct pollfd one = {queue, POLLIN | POLLOUT};
    CHECK(poll(&one, 1, 0) >= 0);
    return one.revents;
}

static void descriptors(void) {
    mqd_t queue = make_of(1, 10, 0);
    CHECK(fcntl(queue, F_GETFD) == FD_CLOEXEC);
    CHECK(ready(queue) == POLLOUT && sends(queue, "x", 0) == 0 && ready(queue) == POLLIN);
    char text[128] = {0};
    CHECK(read(queue, text, 127) > 0 && !strncmp(text, "QSIZE:1  ", 9));
    CHECK(read(queue, text, 127) == 0 && pread(queue, text, 5, 0) == 5 && lseek(queue, 0, SEEK_SET) == 0);
    FAILS(write(queue, "x", 1), EINVAL);
    struct stat status;
    CHECK(fstat(queue, &status) == 0 && S_ISREG(status.st_mode) && (status.st_mode & 07777) == 0600 && status.st_uid == geteuid());
    int epoll = epoll_create1(0);
    struct epoll_event event = {EPOLLOUT | EPOLLET}, seen;
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, queue, &event) == 0 && epoll_wait(epoll, &seen, 1, 0) == 0);
    int copy = dup(queue);
    CHECK(copy >= 0 && mq_receive(copy, text, 10, NULL) == 1 && epoll_wait(epoll, &seen, 1, 1000) == 1);
    close(epoll);
    /* O_NONBLOCK is the open file's. */
    struct mq_attr attributes = {.mq_flags = O_NONBLOCK}, before;
    CHECK(mq_setattr(copy, &attributes, &before) == 0 && before.mq_flags == 0);
    CHECK(mq_getattr(queue, &before) == 0 && before.mq_flags == O_NONBLOCK && fcntl(queue, F_GETFL) & O_NONBLOCK);
    FAILS(mq_receive(queue, text, 10, NULL), EAGAIN);
    attributes.mq_flags = O_APPEND;
    FAILS(mq_setattr(queue, &attributes, NULL), EINVAL);
    attributes.mq_flags = 0;
    CHECK(mq_setattr(queue, &attributes, NULL) == 0 && !(fcntl(queue, F_GETFL) & O_NONBLOCK));
    /* Passed to another process, by inheritance and by a socket. */
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec piece = {"x", 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &queue, sizeof queue);
    CHECK(sendmsg(pair[0], &message, 0) == 1 && mq_unlink(NAME) == 0 && close(queue) == 0 && close(copy) == 0);
    char got_byte;
    piece.iov_base = &got_byte;
    message.msg_controllen = sizeof control;
    CHECK(recvmsg(pair[1], &message, 0) == 1);
    memcpy(&queue, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof queue);
    CHECK(sends(queue, "passed", 2) == 0 && mq_receive(queue, text, 10, NULL) == 6);
    /* A poll that waits. */
    pid_t child = fork();
    if (child == 0) {
        struct pollfd one = {queue, POLLIN};
        _exit(poll(&one, 1, 60000) == 1 && one.revents == POLLIN ? 0 : 1);
    }
    until_it_waits(child);
    CHECK(sends(queue, "x", 0) == 0 && status_of(child) == 0 && close(queue) == 0);
    close(pair[0]), close(pair[1]);
}

static long number_in(const char *path) {
    FILE *file = fopen(path, "r");
    long value = -1;
    CHECK(file && fscanf(file, "%ld", &value) == 1);
    fclose(file);
    return value;
}

static void limits(void) {
    CHECK(number_in("/proc/sys/fs/mqueue/queues_max") == 256 && number_in("/proc/sys/fs/mqueue/msg_max") == 10);
    CHECK(number_in("/proc/sys/fs/mqueue/msgsize_max") == 8192 && number_in("/proc/sys/fs/mqueue/msg_default") == 10);
    CHECK(number_in("/proc/sys/fs/mqueue/msgsize_default") == 8192);
    pid_t child = fork();
    if (child == 0) {
        if (geteuid() == 0) CHECK(setgid(1234) == 0 && setuid(1234) == 0);
        struct mq_attr size = {.mq_maxmsg = 11, .mq_msgsize = 10};
        FAILS(mq_open(NAME, O_RDWR | O_CREAT | O_EXCL, 0600, &size), EINVAL);
        size = (struct mq_attr){.mq_maxmsg = 10, .mq_msgsize = 8193};
        FAILS(mq_open(NAME, O_RDWR | O_CREAT | O_EXCL, 0600, &size), EINVAL);
        /* Bytes of all queues of the user; each message counts 96 bytes more. */
        struct rlimit limit = {10 * (100 + 96), 10 * (100 + 96)};
        CHECK(setrlimit(RLIMIT_MSGQUEUE, &limit) == 0);
        size = (struct mq_attr){.mq_maxmsg = 10, .mq_msgsize = 101};
        FAILS(mq_open(NAME, O_RDWR | O_CREAT | O_EXCL, 0600, &size), EMFILE);
        size.mq_msgsize = 100;
        mqd_t queue = mq_open(NAME, O_RDWR | O_CREAT | O_EXCL, 0600, &size);
        CHECK(queue >= 0);
        size = (struct mq_attr){.mq_maxmsg = 1, .mq_msgsize = 1};
        FAILS(mq_open(NAME "2", O_RDWR | O_CREAT | O_EXCL, 0600, &size), EMFILE);
        CHECK(mq_unlink(NAME) == 0);
        FAILS(mq_open(NAME "2", O_RDWR | O_CREAT | O_EXCL, 0600, &size), EMFILE);
        CHECK(mq_close(queue) == 0);
        queue = mq_open(NAME "2", O_RDWR | O_CREAT | O_EXCL, 0600, &size);
        CHECK(queue >= 0 && mq_unlink(NAME "2") == 0);
        _exit(0);
    }
    CHECK(status_of(child) == 0);
}

static void rights(void) {
    if (geteuid() != 0) return;
    mqd_t queue = make_of(1, 10, 0);
    mq_unlink(NAME "-readable"), mq_unlink(NAME "-written");
    umask(027);
    mqd_t readable = mq_open(NAME "-readable", O_RDWR | O_CREAT, 0666, NULL);
    umask(022);
    mqd_t written = mq_open(NAME "-written", O_RDWR | O_CREAT, 0622, NULL);
    struct stat status;
    CHECK(readable >= 0 && written >= 0 && fstat(readable, &status) == 0 && (status.st_mode & 07777) == 0640);
    CHECK(fstat(written, &status) == 0 && (status.st_mode & 07777) == 0600);
    mq_close(written), mq_unlink(NAME "-written");
    umask(0);
    written = mq_open(NAME "-written", O_RDWR | O_CREAT, 0622, NULL);
    umask(022);
    pid_t child = fork();
    if (child == 0) {
        CHECK(setgid(1234) == 0 && setuid(1234) == 0);
        FAILS(mq_open(NAME, O_RDONLY), EACCES);
        FAILS(mq_open(NAME, O_WRONLY | O_CREAT, 0600, NULL), EACCES);
        FAILS(mq_open(NAME "-readable", O_RDONLY), EACCES);
        FAILS(mq_open(NAME "-written", O_RDONLY), EACCES);
        FAILS(mq_open(NAME "-written", O_RDWR), EACCES);
        mqd_t own = mq_open(NAME "-written", O_WRONLY);
        CHECK(own >= 0 && sends(own, "x", 0) == 0);
        CHECK(got(own) == NULL && errno == EBADF);
        FAILS(mq_unlink(NAME), EACCES);
        FAILS(syscall(SYS_mq_unlink, NAME + 1), EPERM);
        _exit(0);
    }
    CHECK(status_of(child) == 0 && count_of(written) == 1);
    CHECK(mq_unlink(NAME "-readable") == 0 && mq_unlink(NAME "-written") == 0 && mq_close(readable) == 0 && mq_close(written) == 0);
    end(queue);
}

/* Of those who make a queue that nobody has yet, one does. */
static void race(void) {
    enum { COUNT = 4, ROUNDS = 50 };
    for (int round = 0; round < ROUNDS; round++) {
        pid_t children[COUNT];
        int gate[2], made = 0;
        CHECK(pipe(gate) == 0);
        for (int i = 0; i < COUNT; i++) {
            if ((children[i] = fork())) continue;
            char byte;
            close(gate[1]);
            CHECK(read(gate[0], &byte, 1) == 0);
            mqd_t queue = mq_open(NAME, O_RDWR | O_CREAT | O_EXCL, 0600, NULL);
            CHECK(queue >= 0 || errno == EEXIST);
            _exit(queue >= 0 ? 7 : 0);
        }
        close(gate[0]), close(gate[1]);
        for (int i = 0; i < COUNT; i++) {
            int status = status_of(children[i]);
            CHECK(WIFEXITED(status) && (WEXITSTATUS(status) == 7 || WEXITSTATUS(status) == 0));
            made += WEXITSTATUS(status) == 7;
        }
        CHECK(made == 1 && mq_unlink(NAME) == 0);
    }
}

/* A process that is killed while it waits takes no message, and sends none. */
static void killed(void) {
    mqd_t queue = make_of(1, 10, 0);
    struct timespec late = {now_ns(CLOCK_REALTIME) / 1000000000 + 100, 0};
    pid_t child = fork();
    if (child == 0) _exit(mq_timedreceive(queue, got_text, 8192, NULL, &late) > 0);
    until_it_waits(child);
    CHECK(kill(child, SIGKILL) == 0 && WIFSIGNALED(status_of(child)));
    CHECK(sends(queue, "one", 3) == 0 && count_of(queue) == 1);
    child = fork();
    if (child == 0) _exit(mq_timedsend(queue, "two", 3, 9, &late) == 0);
    until_it_waits(child);
    CHECK(kill(child, SIGKILL) == 0 && WIFSIGNALED(status_of(child)));
    GETS(queue, "one", 3);
    CHECK(count_of(queue) == 0 && sends(queue, "three", 1) == 0);
    GETS(queue, "three", 1);
    end(queue);
}

/* Many send and receive; nothing is lost or doubled, and each sender's messages come in order. */
static void crowd(void) {
    enum { COUNT = 4, ROUNDS = 300 };
    mqd_t queue = make_of(4, 8, 0);
    int pipes[2];
    CHECK(pipe(pipes) == 0);
    pid_t children[2 * COUNT];
    for (int i = 0; i < 2 * COUNT; i++) {
        if ((children[i] = fork())) continue;
        for (int round = 0; round < ROUNDS; round++) {
            int message[2] = {i, round};
            if (i < COUNT) {
                CHECK(mq_send(queue, (char *)message, 8, 0) == 0);
            } else {
                CHECK(mq_receive(queue, (char *)message, 8, NULL) == 8 && write(pipes[1], message, 8) == 8);
            }
        }
        _exit(0);
    }
    char seen[COUNT][ROUNDS] = {0};
    for (int i = 0; i < COUNT * ROUNDS; i++) {
        int message[2];
        CHECK(read(pipes[0], message, 8) == 8 && message[0] < COUNT && message[1] < ROUNDS && !seen[message[0]][message[1]]++);
    }
    for (int i = 0; i < 2 * COUNT; i++) CHECK(status_of(children[i]) == 0);
    CHECK(count_of(queue) == 0);
    end(queue);
    close(pipes[0]), close(pipes[1]);
}

int main(int count, char **arguments) {
    if (count == 2) {
        char byte;
        return read(0, &byte, 1) == 0 ? 0 : 1;
    }
    names();
    order();
    waits();
    notices();
    full_table();
    descriptors();
    limits();
    rights();
    race();
    killed();
    crowd();
    done("posix_queues");
    return 0;
}
