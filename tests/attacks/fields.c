/* Attack 8: each field of the structures that calls read, at the ends of its range while the others make sense; and flows whose places
   are no places, which once stopped the machine. A call may answer what it likes; the machine must go on. */
#include "attack.h"
#include "../../user/native/include/gyre.h"
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <linux/sched.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>

static const uint64_t extremes[] = {0, 1, -1UL, 0x7fffffff, 0x80000000, 0xffffffff, 1UL << 32, INT64_MAX, 1UL << 63, 4095, 4096, 4097, -4096UL, -4095UL,
    INT64_MAX - 4095, INT64_MAX - 8191, 999999999, 1000000000, USER_TOP, USER_TOP - 1};
#define EXTREMES (sizeof extremes / sizeof *extremes)
#define PAGE 4096UL

static int file, ends[2], pair[2], queue, timer;
static char text[256];
static struct iovec pieces[2] = {{text, 8}, {text + 8, 8}};

static void nothing(int signal) { (void)signal; }

/* The user `nobody`, who can change only itself. */
static void become_nobody(void) {
    CHECK(setsid() > 0);
    if (geteuid() == 0) CHECK(syscall(SYS_setgroups, 0, NULL) == 0 && setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0);
}

static void prepare(void) {
    become_nobody();
    char name[] = "/tmp/field-XXXXXX";
    file = mkstemp(name);
    unlink(name);
    CHECK(file >= 0 && ftruncate(file, 8192) == 0 && pipe2(ends, O_NONBLOCK) == 0 && write(ends[1], text, 8) == 8);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
    queue = epoll_create1(0), timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    CHECK(queue >= 0 && timer >= 0);
    struct rlimit most = {1 << 20, 1 << 20};
    CHECK(setrlimit(RLIMIT_FSIZE, &most) == 0);
    const int quiet[] = {SIGALRM, SIGXFSZ, SIGPIPE, SIGUSR1};
    struct sigaction action = {.sa_handler = nothing};
    for (unsigned i = 0; i < sizeof quiet / sizeof *quiet; i++) CHECK(sigaction(quiet[i], &action, NULL) == 0);
}

/* Everything that waits is interrupted. */
static void interrupt(void) {
    int null = open("/dev/null", O_RDWR);
    /* Descriptors 0 to 2 are extremes, too. */
    for (int i = 0; i < 3; i++) CHECK(dup2(null, i) == i);
    close(null);
    struct itimerval often = {{0, 4000}, {0, 4000}};
    setitimer(ITIMER_REAL, &often, NULL);
}

/* Runs a call with each word of 8, 4 and 2 bytes of a structure at each extreme. */
static void each_field(void *structure, size_t bytes, void (*call)(void)) {
    char sense[512];
    memcpy(sense, structure, bytes);
    for (size_t width = 8; width > 1; width /= 2)
        for (size_t at = 0; at + width <= bytes; at += width)
            for (unsigned i = 0; i < EXTREMES; i++) {
                memcpy((char *)structure + at, &extremes[i], width);
                call();
                memcpy(structure, sense, bytes);
            }
}

static struct timespec when = {0, 1000};
static void sleeps(void) {
    struct pollfd entry = {ends[0], POLLPRI, 0};
    struct epoll_event event;
    uint32_t word = 0;
    uint64_t set = 1UL << (SIGUSR2 - 1);
    for (int clock = 0; clock < 2; clock++) {
        syscall(SYS_clock_nanosleep, clock, 0, &when, NULL);
        syscall(SYS_clock_nanosleep, clock, TIMER_ABSTIME, &when, NULL);
    }
    syscall(SYS_nanosleep, &when, &when);
    syscall(SYS_ppoll, &entry, 1, &when, NULL, 8);
    syscall(SYS_pselect6, 0, NULL, NULL, NULL, &when, NULL);
    syscall(SYS_epoll_pwait2, queue, &event, 1, &when, NULL, 8);
    syscall(SYS_futex, &word, FUTEX_WAIT, 0, &when, NULL, 0);
    syscall(SYS_futex, &word, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 0, &when, NULL, -1);
    syscall(SYS_rt_sigtimedwait, &set, NULL, &when, 8);
    syscall(SYS_recvmmsg, pair[0], NULL, 0, 0, &when);
    syscall(SYS_utimensat, file, NULL, (struct timespec[]){when, when}, 0);
    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &when, sizeof when);
}

static struct itimerspec spec = {{0, 1000000}, {0, 1}};
static void arms(void) {
    struct itimerspec shown;
    uint64_t count;
    for (int flags = 0; flags < 2; flags++) {
        if (timerfd_settime(timer, flags, &spec, NULL)) continue;
        if (read(timer, &count, 8) == 8) read(timer, &count, 8);
        timerfd_gettime(timer, &shown);
    }
}

static timer_t posix;
static void arms_posix(void) {
    struct itimerspec shown;
    /* Others make sense only if the signals leave time for anything. */
    if (spec.it_interval.tv_sec == 0 && spec.it_interval.tv_nsec < 1000000) return;
    for (int flags = 0; flags < 2; flags++) {
        timer_settime(posix, flags, &spec, NULL);
        timer_gettime(posix, &shown);
        timer_getoverrun(posix);
    }
    struct itimerval value = {{spec.it_interval.tv_sec, spec.it_interval.tv_nsec / 1000}, {spec.it_value.tv_sec, spec.it_value.tv_nsec / 1000}};
    setitimer(ITIMER_REAL, &value, NULL);
    getitimer(ITIMER_REAL, &value);
    interrupt();
}

static struct sigevent happening = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
static void makes_timers(void) {
    int id;
    if (syscall(SYS_timer_create, CLOCK_MONOTONIC, &happening, &id) == 0) syscall(SYS_timer_delete, id);
}

static void moves_pieces(void) {
    for (int flags = 0; flags < 2; flags++) {
        int sink = flags ? ends[1] : file;
        writev(sink, pieces, 2), readv(flags ? ends[0] : file, pieces, 2);
        pwritev(file, pieces, 2, flags ? INT64_MAX - 8 : 0), preadv(file, pieces, 2, flags ? INT64_MAX - 8 : 0);
        vmsplice(ends[flags], pieces, 2, SPLICE_F_NONBLOCK);
        process_vm_readv(getpid(), pieces, 1, pieces + 1, 1, 0);
    }
}

static char control[64];
static struct mmsghdr message = {{.msg_iov = pieces, .msg_iovlen = 2, .msg_control = control, .msg_controllen = 24}, 0};
static void sends(void) {
    sendmsg(pair[0], &message.msg_hdr, 0), recvmsg(pair[1], &message.msg_hdr, 0);
    syscall(SYS_sendmmsg, pair[1], &message, 1, 0), syscall(SYS_recvmmsg, pair[0], &message, 1, 0, NULL);
}

static struct flock lock = {.l_type = F_WRLCK, .l_start = 8, .l_len = 8};
static void locks(void) {
    const int commands[] = {F_SETLK, F_GETLK, F_OFD_SETLK, F_OFD_GETLK};
    struct flock copy;
    for (unsigned i = 0; i < 4; i++) copy = lock, fcntl(file, commands[i], &copy);
}

static struct rlimit limit = {1 << 20, 1 << 20};
static int resource;
static void limits(void) {
    pid_t child = fork();
    if (child == 0) {
        setrlimit(resource, &limit), prlimit(0, resource, &limit, &limit);
        free(malloc(1 << 20)), syscall(SYS_brk, syscall(SYS_brk, 0) + 65536), write(file, text, 8), dup(file);
        _exit(0);
    }
    while (child > 0 && waitpid(child, NULL, 0) == -1 && errno == EINTR) {}
}

static struct epoll_event interest = {EPOLLIN, {.u64 = 1}};
static void watches(void) {
    struct epoll_event found[2];
    epoll_ctl(queue, EPOLL_CTL_ADD, ends[0], &interest);
    epoll_wait(queue, found, 2, 0);
    epoll_ctl(queue, EPOLL_CTL_DEL, ends[0], &interest);
}

static char child_stack[65536];
static struct clone_args birth = {.exit_signal = SIGCHLD};
static void clones(void) {
    /* Flags that share memory with what runs here are another attack. */
    birth.flags &= CLONE_PIDFD | CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | CLONE_SETTLS | CLONE_FS | CLONE_FILES;
    long child = syscall(SYS_clone3, &birth, sizeof birth);
    if (child == 0) syscall(SYS_exit_group, 0);
    if (child > 0) waitpid(child, NULL, __WALL);
}

static struct iocb wish, *list[] = {&wish};
static aio_context_t context;
static void submits(void) {
    struct io_event found[4];
    struct timespec none = {0, 0};
    syscall(SYS_io_submit, context, 1, list);
    syscall(SYS_io_getevents, context, 0, 4, found, &none);
}

static struct io_uring_params parameters;
static void makes_rings(void) {
    struct io_uring_params copy = parameters;
    close(syscall(SYS_io_uring_setup, 4, &copy));
}

static int ring;
static struct io_uring_sqe *entries, entry;
static char *ring_memory;
static void enters(void) {
    volatile uint32_t *tail = (void *)(ring_memory + parameters.sq_off.tail);
    ((uint32_t *)(ring_memory + parameters.sq_off.array))[*tail & 7] = *tail & 7;
    entries[*tail & 7] = entry;
    __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
    syscall(SYS_io_uring_enter, ring, 1, 0, IORING_ENTER_GETEVENTS, NULL, 0);
    /* Completed requests are taken. */
    *(volatile uint32_t *)(ring_memory + parameters.cq_off.head) = *(volatile uint32_t *)(ring_memory + parameters.cq_off.tail);
}

/* In a child, so that nothing of it is left; it may end by a signal of its own making. */
#define ATTEMPT(...) (void)IN_CHILD({ prepare(); interrupt(); __VA_ARGS__; })

static void all_fields(void) {
    ATTEMPT(each_field(&when, sizeof when, sleeps));
    ATTEMPT(each_field(&spec, sizeof spec, arms));
    ATTEMPT(timer_create(CLOCK_MONOTONIC, &happening, &posix); spec.it_interval.tv_nsec = 10000000; each_field(&spec, sizeof spec, arms_posix));
    ATTEMPT(each_field(&happening, 16, makes_timers));
    ATTEMPT(each_field(pieces, sizeof pieces, moves_pieces));
    ATTEMPT(struct cmsghdr head = {.cmsg_len = 20, .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}; memcpy(control, &head, sizeof head);
        memcpy(control + 16, &file, 4); each_field(&message, sizeof message, sends); each_field(control, 24, sends));
    ATTEMPT(each_field(&lock, sizeof lock, locks));
    ATTEMPT(for (resource = 0; resource < 16; resource++) for (unsigned i = 0; i < EXTREMES; i++) limit = (struct rlimit){extremes[i], extremes[i]}, limits());
    ATTEMPT(each_field(&interest, sizeof interest, watches));
    ATTEMPT(birth.stack = (uint64_t)child_stack; birth.stack_size = sizeof child_stack; each_field((char *)&birth + 8, sizeof birth - 8, clones));
    for (int operation = 0; operation < 9; operation++)
        ATTEMPT(CHECK(syscall(SYS_io_setup, 8, &context) == 0); wish.aio_lio_opcode = operation; wish.aio_fildes = file;
            wish.aio_buf = (uint64_t)(operation > 6 ? (void *)pieces : text); wish.aio_nbytes = operation > 6 ? 2 : 8; each_field(&wish, sizeof wish, submits));
    ATTEMPT(each_field(&parameters, sizeof parameters, makes_rings));
}

static void ring_fields(int operation) {
    entry = (struct io_uring_sqe){.opcode = operation, .fd = operation % 2 ? file : ends[0], .addr = (uint64_t)text, .len = 8};
    ring = syscall(SYS_io_uring_setup, 8, &parameters);
    if (ring < 0) return;
    ring_memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
    entries = mmap(NULL, 8 * sizeof entry, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
    if (ring_memory != MAP_FAILED && entries != MAP_FAILED) each_field((char *)&entry + 8, 40, enters);
}

/* A flow whose place in its sink is a negative number: as the sum of what it moved went around, the machine stopped. */
static void flows(void) {
    prepare();
    int flow = gyre_flow(ends[1], 1, 0);
    if (flow < 0 && errno == ENOSYS) return;
    CHECK(flow >= 0);
    FAILS(gyre_flow_source(flow, file, 0, 100, -50), EINVAL);
    FAILS(gyre_flow_source(flow, file, -50, 100, 0), EINVAL);
    CHECK(gyre_flow_source(flow, file, INT64_MAX, GYRE_TO_END, INT64_MAX) == 0);
    CHECK(gyre_flow_source(flow, file, 0, 100, INT64_MAX - 10) == 0);
    CHECK(gyre_flow_close(flow, GYRE_FLOW_FINISH) == 100 && close(flow) == 0);
    char path[] = "/tmp/flow-XXXXXX";
    int sink = mkstemp(path);
    unlink(path);
    flow = gyre_flow(sink, UINT32_MAX, 0);
    CHECK(flow == -1 && errno == EINVAL);
    for (unsigned i = 0; i < EXTREMES; i++)
        for (int at = 0; at < 3; at++) {
            uint64_t a[] = {0, 100, 0};
            a[at] = extremes[i];
            CHECK((flow = gyre_flow(sink, 1, 0)) >= 0);
            gyre_flow_source(flow, file, a[0], a[1], a[2]);
            gyre_flow_close(flow, GYRE_FLOW_FINISH);
            close(flow);
            CHECK(ftruncate(sink, 0) == 0);
        }
}

int main(void) {
    attack_begin();
    CHECK(IN_CHILD(flows()) == 0);
    all_fields();
    for (int operation = 0; operation < 60; operation++) ATTEMPT(ring_fields(operation));
    done("fields");
    return 0;
}
