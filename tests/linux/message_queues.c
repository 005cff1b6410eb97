/* Message queues of System V: order and types, waits and how they end, limits, figures, rights. */
#include "check.h"
#include <limits.h>
#include <sys/ipc.h>
#include <sys/msg.h>

struct message {
    long kind;
    char text[8192];
};

static int make(void) {
    int queue = msgget(IPC_PRIVATE, 0600);
    CHECK(queue >= 0);
    return queue;
}

static int sends(int queue, long kind, const char *text, int flags) {
    struct message message = {kind};
    strcpy(message.text, text);
    return msgsnd(queue, &message, strlen(text), flags);
}

/* Receives a message of the kind, and answers its text; a static place. */
static const char *got(int queue, long kind, int flags) {
    static struct message message;
    ssize_t bytes = msgrcv(queue, &message, sizeof message.text - 1, kind, flags | IPC_NOWAIT);
    if (bytes < 0) return NULL;
    message.text[bytes] = 0;
    return message.text;
}
#define GETS(queue, kind, flags, wanted)                    \
    do {                                                    \
        const char *text_ = got(queue, kind, flags);        \
        CHECK(text_ != NULL && !strcmp(text_, wanted));     \
    } while (0)

static struct msqid_ds status_of_queue(int queue) {
    struct msqid_ds status;
    CHECK(msgctl(queue, IPC_STAT, &status) == 0);
    return status;
}

static void keys(void) {
    key_t key = 0x67797266;
    int old = msgget(key, 0);
    if (old >= 0) CHECK(msgctl(old, IPC_RMID, NULL) == 0);
    FAILS(msgget(key, 0600), ENOENT);
    int queue = msgget(key, IPC_CREAT | IPC_EXCL | 0640);
    CHECK(queue >= 0 && msgget(key, 0) == queue);
    FAILS(msgget(key, IPC_CREAT | IPC_EXCL), EEXIST);
    struct msqid_ds status = status_of_queue(queue);
    CHECK(status.msg_perm.__key == key && (status.msg_perm.mode & 0777) == 0640 && status.msg_qbytes == 16384);
    CHECK(status.msg_qnum == 0 && status.msg_stime == 0 && status.msg_rtime == 0 && status.msg_ctime != 0 && status.msg_lspid == 0);
    CHECK(sends(queue, 1, "four", 0) == 0 && sends(queue, 1, "", 0) == 0);
    status = status_of_queue(queue);
    CHECK(status.msg_qnum == 2 && status.__msg_cbytes == 4 && status.msg_lspid == getpid() && status.msg_stime != 0);
    GETS(queue, 0, 0, "four");
    GETS(queue, 0, 0, "");
    status = status_of_queue(queue);
    CHECK(status.msg_qnum == 0 && status.__msg_cbytes == 0 && status.msg_lrpid == getpid() && status.msg_rtime != 0);
    CHECK(msgctl(queue, IPC_RMID, NULL) == 0);
    FAILS(msgctl(queue, IPC_STAT, &status), EINVAL);
    FAILS(sends(queue, 1, "x", IPC_NOWAIT), EINVAL);
    CHECK(got(queue, 0, 0) == NULL && errno == EINVAL);
    FAILS(msgget(key, 0), ENOENT);
}

static void choices(void) {
    int queue = make();
    const char *texts[] = {"a3", "b1", "c2", "d3", "e1"};
    for (int i = 0; i < 5; i++) CHECK(sends(queue, texts[i][1] - '0', texts[i], 0) == 0);
    GETS(queue, 2, 0, "c2");
    GETS(queue, 3, MSG_EXCEPT, "b1");
    GETS(queue, -2, 0, "e1");
    CHECK(got(queue, -2, 0) == NULL && errno == ENOMSG);
    CHECK(got(queue, 3, MSG_EXCEPT) == NULL && errno == ENOMSG);
    CHECK(got(queue, 1, 0) == NULL && errno == ENOMSG);
    GETS(queue, LONG_MIN, 0, "a3");
    GETS(queue, 0, 0, "d3");
    CHECK(got(queue, 0, 0) == NULL && errno == ENOMSG);
    /* The lowest type first. */
    CHECK(sends(queue, LONG_MAX, "high", 0) == 0 && sends(queue, 7, "seven", 0) == 0 && sends(queue, 5, "five", 0) == 0);
    GETS(queue, -9, 0, "five");
    GETS(queue, LONG_MIN + 1, 0, "seven");
    GETS(queue, LONG_MAX, 0, "high");
    /* A message that is too long stays, or is cut. */
    struct message message;
    CHECK(sends(queue, 1, "long", 0) == 0);
    FAILS(msgrcv(queue, &message, 3, 0, 0), E2BIG);
    CHECK(msgrcv(queue, &message, 3, 0, MSG_NOERROR) == 3 && message.kind == 1 && !memcmp(message.text, "lon", 3));
    CHECK(sends(queue, 1, "long", 0) == 0 && msgrcv(queue, &message, 0, 0, MSG_NOERROR) == 0);
    /* Copies of messages by their place. */
    CHECK(sends(queue, 4, "zero", 0) == 0 && sends(queue, 2, "one", 0) == 0);
    CHECK(msgrcv(queue, &message, 8, 1, MSG_COPY | IPC_NOWAIT) == 3 && message.kind == 2 && !memcmp(message.text, "one", 3));
    FAILS(msgrcv(queue, &message, 8, 2, MSG_COPY | IPC_NOWAIT), ENOMSG);
    FAILS(msgrcv(queue, &message, 2, 0, MSG_COPY | IPC_NOWAIT), E2BIG);
    FAILS(msgrcv(queue, &message, 8, 0, MSG_COPY), EINVAL);
    FAILS(msgrcv(queue, &message, 8, 0, MSG_COPY | MSG_EXCEPT | IPC_NOWAIT), EINVAL);
    CHECK(status_of_queue(queue).msg_qnum == 2);
    for (int i = 2; i < 3000; i++) CHECK(sends(queue, i + 1, "", 0) == 0);
    CHECK(msgrcv(queue, &message, 8, 2999, MSG_COPY | IPC_NOWAIT) == 0 && message.kind == 3000);
    CHECK(msgrcv(queue, &message, 8, 1024, MSG_COPY | IPC_NOWAIT) == 0 && message.kind == 1025);
    FAILS(msgrcv(queue, &message, 8, 3000, MSG_COPY | IPC_NOWAIT), ENOMSG);
    FAILS(msgrcv(queue, &message, 8, LONG_MAX, MSG_COPY | IPC_NOWAIT), ENOMSG);
    FAILS(msgrcv(queue, &message, 8, LONG_MIN, MSG_COPY | IPC_NOWAIT), ENOMSG);
    CHECK(msgctl(queue, IPC_RMID, NULL) == 0);
}

static void bad_input(void) {
    int queue = make();
    struct message message = {1};
    FAILS(msgsnd(queue, &message, 8193, IPC_NOWAIT), EINVAL);
    FAILS(msgsnd(queue, &message, (size_t)-1, IPC_NOWAIT), EINVAL);
    FAILS(msgsnd(queue, (void *)1, 1, IPC_NOWAIT), EFAULT);
    FAILS(msgsnd(-1, &message, 1, IPC_NOWAIT), EINVAL);
    FAILS(msgsnd(INT_MAX, &message, 1, IPC_NOWAIT), EINVAL);
    message.kind = 0;
    FAILS(msgsnd(queue, &message, 1, IPC_NOWAIT), EINVAL);
    message.kind = LONG_MIN;
    FAILS(msgsnd(queue, &message, 1, IPC_NOWAIT), EINVAL);
    FAILS(msgrcv(queue, &message, (size_t)-1, 0, IPC_NOWAIT), EINVAL);
    FAILS(msgrcv(-1, &message, 1, 0, IPC_NOWAIT), EINVAL);
    FAILS(msgctl(queue, 99, NULL), EINVAL);
    FAILS(msgctl(queue, -1, NULL), EINVAL);
    FAILS(msgctl(-1, IPC_STAT, NULL), EINVAL);
    FAILS(msgctl(queue, IPC_STAT, (void *)1), EFAULT);
    FAILS(msgctl(queue, IPC_SET, (void *)1), EFAULT);
    CHECK(sends(queue, 1, "x", 0) == 0);
    FAILS(msgrcv(queue, (void *)1, 1, 0, IPC_NOWAIT), EFAULT);
    CHECK(msgctl(queue, IPC_RMID, NULL) == 0);
    FAILS(msgctl(queue, IPC_RMID, NULL), EINVAL);
}

static void room(void) {
    int queue = make();
    static struct message message = {1};
    CHECK(msgsnd(queue, &message, 8192, IPC_NOWAIT) == 0 && msgsnd(queue, &message, 8192, IPC_NOWAIT) == 0);
    FAILS(msgsnd(queue, &message, 1, IPC_NOWAIT), EAGAIN);
    CHECK(msgsnd(queue, &message, 0, IPC_NOWAIT) == 0);
    for (int i = 0; i < 3; i++) CHECK(got(queue, 0, MSG_NOERROR) != NULL);
    /* As many messages as bytes. */
    for (int i = 0; i < 16384; i++) CHECK(msgsnd(queue, &message, 0, IPC_NOWAIT) == 0);
    FAILS(msgsnd(queue, &message, 0, IPC_NOWAIT), EAGAIN);
    struct msqid_ds status = status_of_queue(queue);
    CHECK(status.msg_qnum == 16384 && status.__msg_cbytes == 0);
    /* Less room than there are messages. */
    status.msg_qbytes = 100;
    CHECK(msgctl(queue, IPC_SET, &status) == 0 && status_of_queue(queue).msg_qbytes == 100);
    CHECK(got(queue, 0, 0) != NULL);
    FAILS(msgsnd(queue, &message, 0, IPC_NOWAIT), EAGAIN);
    status.msg_perm.uid = -1;
    FAILS(msgctl(queue, IPC_SET, &status), EINVAL);
    CHECK(msgctl(queue, IPC_RMID, NULL) == 0);
}

static volatile sig_atomic_t rings;
static void ring(int signal) { rings++; }

static pid_t child_receives(int queue, long kind, size_t bytes, int code_if) {
    pid_t child = fork();
    if (child == 0) {
        struct message message;
        ssize_t got = msgrcv(queue, &message, bytes, kind, 0);
        _exit(got < 0 ? errno : got == code_if ? 0 : 200);
    }
    until_it_waits(child);
    return child;
}

static void waits(void) {
    int queue = make();
    struct message message = {1};
    struct sigaction action = {.sa_handler = ring, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    arm_often(20);
    FAILS(msgrcv(queue, &message, 10, 0, 0), EINTR);
    while (msgsnd(queue, &message, 1000, IPC_NOWAIT) == 0) {}
    FAILS(msgsnd(queue, &message, 1000, 0), EINTR);
    arm_often(0);
    CHECK(rings > 0);
    while (got(queue, 0, 0)) {}
    /* Each receiver gets what it waits for; the first in line first. */
    pid_t five = child_receives(queue, 5, 10, 2), first = child_receives(queue, 0, 10, 3), second = child_receives(queue, 0, 10, 4);
    CHECK(sends(queue, 9, "one", 0) == 0 && status_of(first) == 0);
    CHECK(sends(queue, 5, "tw", 0) == 0 && status_of(five) == 0);
    CHECK(sends(queue, 5, "four", 0) == 0 && status_of(second) == 0 && status_of_queue(queue).msg_qnum == 0);
    CHECK(status_of_queue(queue).msg_lrpid == second);
    /* One whose place is too small is told, and the next one gets it. */
    first = child_receives(queue, 0, 2, 0);
    second = child_receives(queue, 0, 10, 5);
    CHECK(sends(queue, 1, "fiver", 0) == 0);
    int status = status_of(first);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == E2BIG && status_of(second) == 0);
    /* A stop and a continue do not end the wait. */
    first = child_receives(queue, 0, 10, 1);
    CHECK(kill(first, SIGSTOP) == 0 && waitpid(first, &status, WUNTRACED) == first && WIFSTOPPED(status));
    CHECK(kill(first, SIGCONT) == 0);
    until_it_waits(first);
    CHECK(sends(queue, 1, "x", 0) == 0 && status_of(first) == 0);
    /* A killed receiver leaves nothing. */
    first = child_receives(queue, 0, 10, 0);
    CHECK(kill(first, SIGKILL) == 0);
    status_of(first);
    CHECK(sends(queue, 1, "kept", 0) == 0);
    GETS(queue, 0, 0, "kept");
    /* Senders wait for room, and so does a sender that is killed. */
    static struct message large = {3};
    CHECK(msgsnd(queue, &large, 8192, 0) == 0 && msgsnd(queue, &large, 8192, 0) == 0);
    pid_t killed = fork();
    if (killed == 0) _exit(msgsnd(queue, &large, 8000, 0));
    until_it_waits(killed);
    pid_t sender = fork();
    if (sender == 0) _exit(sends(queue, 4, "waited", 0) ? errno : 0);
    until_it_waits(sender);
    CHECK(kill(killed, SIGKILL) == 0);
    status_of(killed);
    CHECK(status_of_queue(queue).msg_qnum == 2 && got(queue, 0, MSG_NOERROR) != NULL);
    CHECK(status_of(sender) == 0 && status_of_queue(queue).msg_lspid == sender);
    GETS(queue, 4, 0, "waited");
    /* The end of the queue ends all waits. */
    CHECK(msgsnd(queue, &large, 8192, 0) == 0);
    sender = fork();
    if (sender == 0) _exit(msgsnd(queue, &large, 10, 0) ? errno : 0);
    until_it_waits(sender);
    first = child_receives(queue, 77, 10, 0);
    CHECK(msgctl(queue, IPC_RMID, NULL) == 0);
    status = status_of(sender);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == EIDRM);
    status = status_of(first);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == EIDRM);
}

static void limits(void) {
    struct msginfo info;
    CHECK(msgctl(0, IPC_INFO, (void *)&info) >= 0);
    CHECK(info.msgmni == 32000 && info.msgmax == 8192 && info.msgmnb == 16384 && info.msgssz == 16 && info.msgseg == 0xffff);
    int queue = make();
    CHECK(sends(queue, 1, "12345", 0) == 0);
    int highest = msgctl(0, MSG_INFO, (void *)&info), found = 0;
    CHECK(highest >= 0 && info.msgpool >= 1 && info.msgmap >= 1 && info.msgtql >= 5);
    struct msqid_ds status;
    for (int index = 0; index <= highest; index++) {
        if (msgctl(index, MSG_STAT, &status) == queue) found += status.msg_qnum == 1 && msgctl(index, 13 /* MSG_STAT_ANY */, &status) == queue;
    }
    CHECK(found == 1);
    FAILS(msgctl(0, IPC_INFO, (void *)1), EFAULT);
    FAILS(msgctl(-1, IPC_INFO, (void *)&info), EINVAL);
    FAILS(msgctl(INT_MIN, MSG_STAT, &status), EINVAL);
    char line[256], wanted[32];
    snprintf(wanted, sizeof wanted, " %d ", queue);
    FILE *list = fopen("/proc/sysvipc/msg", "r");
    found = 0;
    while (fgets(line, sizeof line, list)) found += strstr(line, wanted) != NULL;
    fclose(list);
    CHECK(found == 1);
    const char *files[] = {"msgmax", "msgmnb", "msgmni"};
    long values[] = {8192, 16384, 32000};
    for (int i = 0; i < 3; i++) {
        snprintf(line, sizeof line, "/proc/sys/kernel/%s", files[i]);
        FILE *file = fopen(line, "r");
        long value = 0;
        CHECK(file && fscanf(file, "%ld", &value) == 1 && value == values[i]);
        fclose(file);
    }
    CHECK(msgctl(queue, IPC_RMID, NULL) == 0);
}

static void rights(void) {
    if (geteuid() != 0) return;
    int closed = make(), readable = msgget(IPC_PRIVATE, 0644), own;
    CHECK(sends(readable, 1, "for all", 0) == 0);
    pid_t child = fork();
    if (child == 0) {
        CHECK(setgid(1234) == 0 && setuid(1234) == 0);
        struct msqid_ds status;
        FAILS(sends(closed, 1, "x", 0), EACCES);
        CHECK(got(closed, 0, 0) == NULL && errno == EACCES);
        FAILS(msgctl(closed, IPC_STAT, &status), EACCES);
        FAILS(msgctl(closed, IPC_RMID, NULL), EPERM);
        FAILS(sends(readable, 1, "x", 0), EACCES);
        GETS(readable, 0, 0, "for all");
        CHECK(msgctl(readable, IPC_STAT, &status) == 0);
        FAILS(msgctl(readable, IPC_SET, &status), EPERM);
        own = make();
        CHECK(msgctl(own, IPC_STAT, &status) == 0);
        status.msg_qbytes = 16385;
        FAILS(msgctl(own, IPC_SET, &status), EPERM);
        status.msg_qbytes = 10;
        CHECK(msgctl(own, IPC_SET, &status) == 0 && msgctl(own, IPC_RMID, NULL) == 0);
        _exit(0);
    }
    CHECK(status_of(child) == 0);
    CHECK(msgctl(closed, IPC_RMID, NULL) == 0 && msgctl(readable, IPC_RMID, NULL) == 0);
}

/* A process that is killed while it waits takes no message, and sends none. */
static void killed(void) {
    int queue = make();
    struct message message = {1};
    pid_t child = fork();
    if (child == 0) _exit(msgrcv(queue, &message, 8000, 0, 0) > 0);
    until_it_waits(child);
    CHECK(kill(child, SIGKILL) == 0 && WIFSIGNALED(status_of(child)));
    CHECK(msgsnd(queue, &message, 8000, 0) == 0 && msgsnd(queue, &message, 8000, 0) == 0);
    CHECK(status_of_queue(queue).msg_qnum == 2);
    child = fork();
    if (child == 0) _exit(msgsnd(queue, &message, 8000, 0) == 0);
    until_it_waits(child);
    CHECK(kill(child, SIGKILL) == 0 && WIFSIGNALED(status_of(child)));
    CHECK(msgrcv(queue, &message, 8000, 0, 0) == 8000 && status_of_queue(queue).msg_qnum == 1);
    CHECK(msgsnd(queue, &message, 8000, IPC_NOWAIT) == 0 && status_of_queue(queue).msg_qnum == 2);
    CHECK(msgctl(queue, IPC_RMID, NULL) == 0);
}

static void set_mode(int queue, int mode) {
    struct msqid_ds status = status_of_queue(queue);
    status.msg_perm.mode = mode;
    CHECK(msgctl(queue, IPC_SET, &status) == 0);
}

/* A child without rights of its own sends or receives, and ends with the errno. */
static pid_t waits_as_another(int queue, int is_sender) {
    pid_t child = fork();
    if (child == 0) {
        CHECK(setgid(1234) == 0 && setuid(1234) == 0);
        struct message message = {1};
        ssize_t did = is_sender ? msgsnd(queue, &message, 8000, 0) : msgrcv(queue, &message, 8000, 0, 0);
        _exit(did < 0 ? errno : 0);
    }
    until_it_waits(child);
    return child;
}

/* Rights that are taken from those who wait: a receiver learns it at once, a sender when there is room for its message. */
static void lost_rights(void) {
    if (geteuid() != 0) return;
    int queue = msgget(IPC_PRIVATE, 0666);
    pid_t receiver = waits_as_another(queue, 0);
    set_mode(queue, 0644);
    sleep_ms(20);
    CHECK(state_of(receiver) == 'S');
    set_mode(queue, 0600);
    CHECK(WEXITSTATUS(status_of(receiver)) == EACCES);
    set_mode(queue, 0666);
    struct message message = {1};
    CHECK(msgsnd(queue, &message, 8000, 0) == 0 && msgsnd(queue, &message, 8000, 0) == 0);
    pid_t sender = waits_as_another(queue, 1);
    set_mode(queue, 0600);
    sleep_ms(20);
    CHECK(state_of(sender) == 'S');
    set_mode(queue, 0666);
    CHECK(msgrcv(queue, &message, 8000, 0, 0) == 8000 && status_of(sender) == 0);
    sender = waits_as_another(queue, 1);
    set_mode(queue, 0644);
    CHECK(msgrcv(queue, &message, 8000, 0, 0) == 8000 && WEXITSTATUS(status_of(sender)) == EACCES);
    CHECK(status_of_queue(queue).msg_qnum == 1);
    CHECK(msgctl(queue, IPC_RMID, NULL) == 0);
}

/* Many send to one another; nothing is lost or doubled, whatever the order. */
static void crowd(void) {
    enum { COUNT = 4, ROUNDS = 500 };
    int queue = make();
    pid_t children[2 * COUNT];
    for (int i = 0; i < 2 * COUNT; i++) {
        if ((children[i] = fork())) continue;
        struct message message = {i % COUNT + 1};
        for (int round = 0; round < ROUNDS; round++) {
            if (i < COUNT) {
                snprintf(message.text, 100, "%d", round);
                CHECK(msgsnd(queue, &message, 100, 0) == 0);
            } else {
                CHECK(msgrcv(queue, &message, 100, i % COUNT + 1, 0) == 100 && atoi(message.text) == round);
            }
        }
        _exit(0);
    }
    for (int i = 0; i < 2 * COUNT; i++) CHECK(status_of(children[i]) == 0);
    CHECK(status_of_queue(queue).msg_qnum == 0);
    CHECK(msgctl(queue, IPC_RMID, NULL) == 0);
}

int main(void) {
    keys();
    choices();
    bad_input();
    room();
    waits();
    limits();
    rights();
    killed();
    lost_rights();
    crowd();
    done("message_queues");
    return 0;
}
