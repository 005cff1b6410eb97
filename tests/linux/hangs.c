/* Calls that once kept a core for ever. Each runs in a child: what it answers, and that it ends. One that does not end meets the limit of whoever runs
 * this program, and the last name that was said is its name. */
#include "check.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/timerfd.h>

static void by_a_child(const char *name, void (*act)(void)) {
    dprintf(1, "%s\n", name);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        act();
        _exit(0);
    }
    int status = status_of(child);
    if (status != 0) {
        dprintf(1, "FAILED hangs: %s: status %#x\n", name, status);
        _exit(1);
    }
}

/* ---- timers whose interval is shorter than their signals take */

static volatile int64_t signals;
static timer_t running;
static void count(int signal) { (void)signal, signals++; }

/* A program may get nothing done between such signals: the handler stops the timer. */
static void count_to_100(int signal) {
    struct itimerspec none = {{0, 0}, {0, 0}};
    struct itimerval never = {{0, 0}, {0, 0}};
    if (++signals == 100 && signal == SIGALRM) setitimer(ITIMER_REAL, &never, NULL);
    if (signals == 100 && signal != SIGALRM) timer_settime(running, 0, &none, NULL);
}

static void catch_signal(int signal, void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler};
    CHECK(sigaction(signal, &action, NULL) == 0);
}

/* A timer that expires every nanosecond. */
static timer_t fast_timer(int signal) {
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = signal};
    struct itimerspec every = {{0, 1}, {0, 1}};
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &running) == 0 && timer_settime(running, 0, &every, NULL) == 0);
    return running;
}

static void wait_for_100(void) {
    while (signals < 100) sleep_ms(1);
    sleep_ms(5);
    int64_t seen = signals;
    sleep_ms(20);
    CHECK(signals == seen);
}

static void caught_timer(void) {
    catch_signal(SIGUSR1, count_to_100);
    timer_t timer = fast_timer(SIGUSR1);
    wait_for_100();
    CHECK(timer_delete(timer) == 0);
}

/* One signal waits, however often the timer has expired; what it missed is counted when it is taken. */
static void blocked_timer(int signal) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    timer_t timer = fast_timer(signal);
    sleep_ms(50);
    siginfo_t info;
    CHECK(sigwaitinfo(&set, &info) == signal && info.si_code == SI_TIMER);
    CHECK(info.si_overrun > 1000000 && info.si_overrun == timer_getoverrun(timer));
    CHECK(sigwaitinfo(&set, &info) == signal && info.si_code == SI_TIMER);
    struct itimerspec left, none = {{0, 0}, {0, 0}};
    CHECK(timer_gettime(timer, &left) == 0 && left.it_interval.tv_nsec == 1);
    CHECK(timer_settime(timer, 0, &none, NULL) == 0);
}
static void blocked_standard(void) { blocked_timer(SIGUSR1); }
static void blocked_realtime(void) { blocked_timer(SIGRTMIN + 3); }

/* A signal of the same number from elsewhere does not stand in the timer's way, nor it in that one's. */
static void timer_beside_kill(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0 && kill(getpid(), SIGUSR1) == 0);
    timer_t timer = fast_timer(SIGUSR1);
    sleep_ms(10);
    siginfo_t info;
    CHECK(sigwaitinfo(&set, &info) == SIGUSR1 && info.si_code == SI_USER);
    for (int round = 0; round < 3; round++) CHECK(sigwaitinfo(&set, &info) == SIGUSR1 && info.si_code == SI_TIMER);
    CHECK(timer_delete(timer) == 0);
}

/* An ignored timer costs little, and is heard again once a handler listens. */
static void ignored_timer(void) {
    catch_signal(SIGUSR1, SIG_IGN);
    timer_t timer = fast_timer(SIGUSR1);
    sleep_ms(50);
    catch_signal(SIGUSR1, count_to_100);
    wait_for_100();
    CHECK(timer_delete(timer) == 0);
}

static void silent_timer(void) {
    struct sigevent event = {.sigev_notify = SIGEV_NONE};
    struct itimerspec every = {{0, 1}, {0, 1}}, left;
    timer_t timer;
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 && timer_settime(timer, 0, &every, NULL) == 0);
    sleep_ms(20);
    CHECK(timer_gettime(timer, &left) == 0 && left.it_interval.tv_nsec == 1 && left.it_value.tv_sec == 0);
    struct itimerspec once = {{0, 0}, {0, 1}};
    CHECK(timer_settime(timer, 0, &once, NULL) == 0);
    sleep_ms(20);
    CHECK(timer_gettime(timer, &left) == 0 && left.it_value.tv_sec == 0 && left.it_value.tv_nsec == 0);
}

static void fast_itimer(void) {
    catch_signal(SIGALRM, count_to_100);
    struct itimerval every = {{0, 1}, {0, 1}};
    CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
    wait_for_100();
}

static void fast_timerfd(void) {
    int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec every = {{0, 1}, {0, 1}};
    CHECK(timer >= 0 && timerfd_settime(timer, 0, &every, NULL) == 0);
    uint64_t expired = 0;
    for (int round = 0; round < 100; round++) {
        if (round == 0) sleep_ms(20);
        CHECK(read(timer, &expired, 8) == 8 && expired > 0);
        CHECK(round > 0 || expired > 1000000);
    }
}

/* ---- pipes */

static void full_pipe(int ends[2]) {
    static char page[65536];
    CHECK(pipe(ends) == 0 && fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0);
    while (write(ends[1], page, sizeof page) > 0) {}
    CHECK(fcntl(ends[1], F_SETFL, 0) == 0);
}

static void tee_of_nothing(void) {
    int from[2], to[2];
    CHECK(pipe(from) == 0 && pipe(to) == 0 && write(from[1], "abc", 3) == 3);
    CHECK(tee(from[0], to[1], 0, 0) == 0);
    CHECK(tee(-1, -1, 0, 0) == 0);
    FAILS(tee(from[0], to[1], 0, 0x100), EINVAL);
    FAILS(tee(from[0], to[1], 3, 0x100), EINVAL);
    FAILS(splice(from[0], NULL, to[1], NULL, 3, 0x100), EINVAL);
    CHECK(splice(-1, NULL, -1, NULL, 0, 0) == 0);
    FAILS(tee(from[0], from[1], 3, 0), EINVAL);
    FAILS(splice(from[0], NULL, from[1], NULL, 3, 0), EINVAL);
    CHECK(tee(from[0], to[1], 3, SPLICE_F_MOVE | SPLICE_F_MORE) == 3);
    CHECK(splice(from[0], NULL, to[1], NULL, 3, 0) == 3);
}

/* The read end of a full pipe without writers is no sink. */
static void wrong_sink(void) {
    int from[2], full[2];
    full_pipe(full);
    CHECK(pipe(from) == 0 && write(from[1], "abc", 3) == 3 && close(full[1]) == 0);
    FAILS(splice(from[0], NULL, full[0], NULL, 3, 0), EBADF);
    FAILS(tee(from[0], full[0], 3, 0), EBADF);
    int zero = open("/dev/zero", O_RDONLY);
    FAILS(splice(zero, NULL, full[0], NULL, 3, 0), EBADF);
}

/* The write end of a pipe without readers is no source. */
static void wrong_source(void) {
    int gone[2], to[2];
    CHECK(pipe(gone) == 0 && pipe(to) == 0 && close(gone[0]) == 0);
    FAILS(tee(gone[1], to[1], 100, 0), EBADF);
    FAILS(splice(gone[1], NULL, to[1], NULL, 100, 0), EBADF);
}

static void tee_waits(void) {
    int from[2], to[2];
    CHECK(pipe(from) == 0);
    full_pipe(to);
    FAILS(tee(from[0], to[1], 10, SPLICE_F_NONBLOCK), EAGAIN);
    CHECK(write(from[1], "abc", 3) == 3);
    FAILS(tee(from[0], to[1], 10, SPLICE_F_NONBLOCK), EAGAIN);
    pid_t child = fork();
    if (child == 0) {
        static char room[65536];
        sleep_ms(20);
        _exit(read(to[0], room, sizeof room) > 0 ? 0 : 1);
    }
    CHECK(tee(from[0], to[1], 10, 0) == 3 && status_of(child) == 0);
    CHECK(close(from[1]) == 0);
    char text[3];
    CHECK(read(from[0], text, 3) == 3 && tee(from[0], to[1], 10, 0) == 0);
}

/* ---- waiting on an interest list that is ready, for something else */

static int ready_list(void) {
    int ends[2], list = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    CHECK(list >= 0 && pipe(ends) == 0 && write(ends[1], "x", 1) == 1);
    CHECK(epoll_ctl(list, EPOLL_CTL_ADD, ends[0], &event) == 0);
    return list;
}

static void poll_list(int list) {
    short wanted[] = {POLLPRI, POLLOUT, 0};
    for (int index = 0; index < 3; index++) {
        struct pollfd entry = {.fd = list, .events = wanted[index]};
        int64_t begin = now_ns(CLOCK_MONOTONIC);
        CHECK(poll(&entry, 1, 60) == 0);
        CHECK(now_ns(CLOCK_MONOTONIC) - begin >= 59000000);
    }
    struct pollfd entry = {.fd = list, .events = POLLIN};
    CHECK(poll(&entry, 1, 60) == 1 && entry.revents == POLLIN);
}
static void poll_ready_list(void) { poll_list(ready_list()); }

static void select_ready_list(void) {
    int list = ready_list();
    fd_set set;
    FD_ZERO(&set);
    FD_SET(list, &set);
    struct timeval timeout = {0, 60000};
    CHECK(select(list + 1, NULL, NULL, &set, &timeout) == 0);
}

static void nested_ready_list(void) {
    int outer = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLPRI}, found;
    CHECK(epoll_ctl(outer, EPOLL_CTL_ADD, ready_list(), &event) == 0);
    CHECK(epoll_wait(outer, &found, 1, 60) == 0);
    struct pollfd entry = {.fd = outer, .events = POLLIN};
    CHECK(poll(&entry, 1, 60) == 0);
    outer = epoll_create1(0);
    event.events = EPOLLIN;
    CHECK(epoll_ctl(outer, EPOLL_CTL_ADD, ready_list(), &event) == 0);
    poll_list(outer);
}

/* A signal ends such a wait as any other. */
static void interrupted_poll(void) {
    catch_signal(SIGALRM, count);
    struct pollfd entry = {.fd = ready_list(), .events = POLLPRI};
    arm_often(50);
    FAILS(poll(&entry, 1, -1), EINTR);
    arm_often(0);
}

/* ---- calls of any length end soon after their process was killed */

static char *room;
#define ROOM_BYTES (64L << 20)
#define PIECE_BYTES (1L << 20)

/* Much room and little memory: one piece many times. A tenant of 64 MiB has it however late a signal comes. */
static char *much_room(void) {
    int piece = memfd_create("piece", 0);
    char *start = mmap(NULL, ROOM_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(piece >= 0 && start != MAP_FAILED && ftruncate(piece, PIECE_BYTES) == 0);
    for (long at = 0; at < ROOM_BYTES; at += PIECE_BYTES)
        CHECK(mmap(start + at, PIECE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, piece, 0) == start + at);
    close(piece);
    return start;
}

static void move_for_ever(const char *source) {
    int from = open(source, O_RDONLY), to = open("/dev/null", O_WRONLY);
    CHECK(from >= 0 && to >= 0);
    for (;;) sendfile(to, from, NULL, 1L << 62);
}
static void send_random(void) { move_for_ever("/dev/urandom"); }
static void send_zeroes(void) { move_for_ever("/dev/zero"); }
static void read_for_ever(const char *source) {
    int from = open(source, O_RDONLY);
    for (;;) CHECK(read(from, room, ROOM_BYTES) > 0);
}
static void read_random(void) { read_for_ever("/dev/urandom"); }
static void read_zeroes(void) { read_for_ever("/dev/zero"); }

static void killed_soon(void (*act)(void)) {
    room = much_room();
    for (int round = 0; round < 20; round++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) act();
        sleep_ms(100);
        int64_t begin = now_ns(CLOCK_MONOTONIC);
        CHECK(kill(child, SIGKILL) == 0 && status_of(child) == SIGKILL);
        int64_t took = (now_ns(CLOCK_MONOTONIC) - begin) / 1000000;
        if (took <= 1500) return;
        /* A pause of the host spoils one round. */
        dprintf(1, "it took %lld ms to end\n", (long long)took);
    }
    CHECK(!"a killed process ends soon");
}
static void kill_send_random(void) { killed_soon(send_random); }
static void kill_send_zeroes(void) { killed_soon(send_zeroes); }
static void kill_read_random(void) { killed_soon(read_random); }
static void kill_read_zeroes(void) { killed_soon(read_zeroes); }

/* A caught signal ends a long move with what has been moved. */
static void interrupted_move(void) {
    catch_signal(SIGALRM, count);
    int from = open("/dev/urandom", O_RDONLY);
    ssize_t moved = ROOM_BYTES;
    room = much_room();
    arm_often(10);
    /* A signal may come before the first byte, or none while this machine moves all of them. */
    for (int round = 0; round < 100 && (moved <= 0 || moved == ROOM_BYTES); round++) {
        moved = read(from, room, ROOM_BYTES);
        CHECK(moved > 0 || (moved == -1 && errno == EINTR));
    }
    arm_often(0);
    CHECK(moved > 0 && moved < ROOM_BYTES && signals > 0);
}

int main(void) {
    const struct {
        const char *name;
        void (*act)(void);
    } cases[] = {
        {"a timer of 1 ns that is caught", caught_timer},
        {"a timer of 1 ns whose signal is blocked", blocked_standard},
        {"a timer of 1 ns whose real-time signal is blocked", blocked_realtime},
        {"a timer beside a signal of the same number", timer_beside_kill},
        {"a timer of 1 ns that is ignored", ignored_timer},
        {"a timer of 1 ns that tells nobody", silent_timer},
        {"setitimer with 1 us", fast_itimer},
        {"timerfd with 1 ns", fast_timerfd},
        {"tee of no bytes", tee_of_nothing},
        {"a sink that is a read end", wrong_sink},
        {"a source that is a write end", wrong_source},
        {"tee that waits", tee_waits},
        {"poll on a ready list", poll_ready_list},
        {"select on a ready list", select_ready_list},
        {"a ready list in a list", nested_ready_list},
        {"a signal in poll on a ready list", interrupted_poll},
        {"killed in sendfile of random bytes", kill_send_random},
        {"killed in sendfile of zeroes", kill_send_zeroes},
        {"killed in read of random bytes", kill_read_random},
        {"killed in read of zeroes", kill_read_zeroes},
        {"a signal in a long read", interrupted_move},
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++)
        by_a_child(cases[index].name, cases[index].act);
    done("hangs");
    return 0;
}
