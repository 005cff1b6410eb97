// Pseudo-terminals and job control: nodes, background reads and writes, orphaned groups, the end of a session's leader, small requests.
#include "check.h"
#include <asm/ioctls.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>

struct termios2 { unsigned iflag, oflag, cflag, lflag; unsigned char line, cc[19]; unsigned in_speed, out_speed; };

static int make_master(void) {
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    CHECK(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    return master;
}

static void a_peer_is_the_node(void) {
    int master = make_master();
    int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY);
    CHECK(slave >= 0);
    char name[64], shown[64];
    CHECK(ptsname_r(master, name, sizeof name) == 0);
    CHECK(ttyname_r(slave, shown, sizeof shown) == 0 && strcmp(name, shown) == 0);
    struct stat by_name, by_descriptor;
    CHECK(stat(name, &by_name) == 0 && fstat(slave, &by_descriptor) == 0);
    CHECK(by_name.st_ino == by_descriptor.st_ino && by_name.st_rdev == by_descriptor.st_rdev);
    CHECK(S_ISCHR(by_name.st_mode) && by_name.st_uid == getuid());
    close(slave);
    close(master);
    while (access(name, F_OK) == 0)
        sleep_ms(1);
    CHECK(access(name, F_OK) == -1 && errno == ENOENT);
    done("a peer is the node, which goes with its master");
}

static void many_terminals(void) {
    int masters[60];
    for (int i = 0; i < 60; i++) {
        char name[64];
        masters[i] = make_master();
        CHECK(ptsname_r(masters[i], name, sizeof name) == 0);
        int slave = open(name, O_RDWR | O_NOCTTY);
        CHECK(slave >= 0);
        close(slave);
    }
    for (int i = 0; i < 60; i++)
        close(masters[i]);
    done("sixty terminals at once");
}

// Runs `leader` as the leader of a session whose terminal is its argument; answers its exit code. `with_master` runs beside it.
static int in_session(void (*leader)(int slave), void (*with_master)(int master)) {
    int master = make_master();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(setsid() >= 0);
        char name[64];
        CHECK(ptsname_r(master, name, sizeof name) == 0);
        int slave = open(name, O_RDWR);
        CHECK(slave >= 0 && tcgetpgrp(slave) == getpid());
        close(master);
        leader(slave);
        _exit(0);
    }
    if (with_master)
        with_master(master);
    int status = status_of(child);
    close(master);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

// A child in a group of its own, which is in the background.
static pid_t fork_background(void) {
    int ready[2];
    CHECK(pipe(ready) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(setpgid(0, 0) == 0);
        CHECK(write(ready[1], "r", 1) == 1);
        close(ready[0]);
        close(ready[1]);
        return 0;
    }
    char byte;
    CHECK(read(ready[0], &byte, 1) == 1);
    close(ready[0]);
    close(ready[1]);
    return child;
}

static void expect_stop(pid_t child, int signal) {
    int status;
    CHECK(waitpid(child, &status, WUNTRACED) == child);
    CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == signal);
}

static void hand_over(int slave, pid_t group) {
    signal(SIGTTOU, SIG_IGN);
    CHECK(tcsetpgrp(slave, group) == 0);
    signal(SIGTTOU, SIG_DFL);
    CHECK(kill(-group, SIGCONT) == 0);
}

static void reader(int slave) {
    pid_t child = fork_background();
    if (child == 0) {
        char line[16];
        ssize_t count = read(slave, line, sizeof line);
        CHECK(count == 3 && memcmp(line, "yes", 3) == 0);
        _exit(7);
    }
    expect_stop(child, SIGTTIN);
    hand_over(slave, child);
    int status = status_of(child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static void type_yes(int master) {
    sleep_ms(300);
    CHECK(write(master, "yes\x04", 4) == 4);
    sleep_ms(300);
    CHECK(write(master, "\x04", 1) == 1);
}

static void setter(int slave) {
    struct termios settings;
    CHECK(tcgetattr(slave, &settings) == 0);
    pid_t child = fork_background();
    if (child == 0) {
        CHECK(tcsetattr(slave, TCSANOW, &settings) == 0);
        _exit(8);
    }
    expect_stop(child, SIGTTOU);
    hand_over(slave, child);
    int status = status_of(child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 8);
}

static void writer(int slave) {
    struct termios settings;
    CHECK(tcgetattr(slave, &settings) == 0);
    pid_t child = fork_background();
    if (child == 0) {
        CHECK(write(slave, "a", 1) == 1);
        _exit(0);
    }
    CHECK(status_of(child) == 0);
    settings.c_lflag |= TOSTOP;
    CHECK(tcsetattr(slave, TCSANOW, &settings) == 0);
    child = fork_background();
    if (child == 0) {
        CHECK(write(slave, "b", 1) == 1);
        _exit(0);
    }
    expect_stop(child, SIGTTOU);
    CHECK(kill(child, SIGKILL) == 0);
    status_of(child);
    child = fork_background();
    if (child == 0) {
        signal(SIGTTOU, SIG_IGN);
        CHECK(write(slave, "c", 1) == 1);
        _exit(0);
    }
    CHECK(status_of(child) == 0);
}

static void withstander(int slave) {
    pid_t child = fork_background();
    if (child == 0) {
        char byte;
        signal(SIGTTIN, SIG_IGN);
        FAILS(read(slave, &byte, 1), EIO);
        struct termios settings;
        signal(SIGTTOU, SIG_IGN);
        CHECK(tcgetattr(slave, &settings) == 0 && tcsetattr(slave, TCSANOW, &settings) == 0);
        _exit(0);
    }
    CHECK(status_of(child) == 0);
    FAILS(tcsetpgrp(slave, 29999), ESRCH);
    FAILS(tcsetpgrp(slave, -1), EINVAL);
}

static int news[2];

static volatile sig_atomic_t heard;

static void say(int signal) {
    char letter = signal == SIGHUP ? 'h' : 'c';
    heard++;
    (void)!write(news[1], &letter, 1);
}

static void expect_news(const char *letters) {
    for (const char *letter = letters; *letter; letter++) {
        struct pollfd entry = {news[0], POLLIN, 0};
        char byte = 0;
        CHECK(poll(&entry, 1, -1) == 1);
        CHECK(read(news[0], &byte, 1) == 1 && strchr(letters, byte));
    }
}

// Its child is stopped in a group of its own when the leader ends: an orphaned group.
static void leave_a_stopped_child(int slave) {
    (void)slave;
    signal(SIGHUP, SIG_IGN);
    pid_t child = fork_background();
    if (child == 0) {
        signal(SIGHUP, say);
        signal(SIGCONT, say);
        raise(SIGSTOP);
        while (heard < 2)
            sleep_ms(1);
        _exit(0);
    }
    expect_stop(child, SIGSTOP);
}

// Its child has the foreground when the leader ends.
static void leave_a_foreground_child(int slave) {
    pid_t child = fork_background();
    if (child == 0) {
        signal(SIGHUP, say);
        CHECK(write(news[1], "c", 1) == 1);
        while (heard == 0)
            sleep_ms(1);
        _exit(0);
    }
    signal(SIGTTOU, SIG_IGN);
    CHECK(tcsetpgrp(slave, child) == 0);
    expect_news("c");
}

// Reads after its leader has ended.
static void leave_a_reader(int slave) {
    signal(SIGHUP, SIG_IGN);
    pid_t leader = getpid(), child = fork_background();
    if (child == 0) {
        while (getppid() == leader)
            sleep_ms(5);
        char byte;
        // The terminal is no session's any more: nobody is stopped.
        CHECK(fcntl(slave, F_SETFL, O_NONBLOCK) == 0);
        FAILS(read(slave, &byte, 1), EAGAIN);
        CHECK(write(news[1], "c", 1) == 1);
        _exit(0);
    }
}

static void await_reader(int master) {
    (void)master;
    expect_news("c");
}

static void small_requests(int slave) {
    int value = -1;
    CHECK(ioctl(slave, TIOCGETD, &value) == 0 && value == 0);
    CHECK(ioctl(slave, TIOCSETD, &value) == 0);
    value = 99;
    FAILS(ioctl(slave, TIOCSETD, &value), EINVAL);
    CHECK(ioctl(slave, TIOCOUTQ, &value) == 0 && value >= 0);
    CHECK(ioctl(slave, TIOCEXCL) == 0 && ioctl(slave, TIOCGEXCL, &value) == 0 && value == 1);
    CHECK(ioctl(slave, TIOCNXCL) == 0 && ioctl(slave, TIOCGEXCL, &value) == 0 && value == 0);
    struct termios2 two;
    CHECK(ioctl(slave, TCGETS2, &two) == 0 && two.in_speed == 38400 && two.out_speed == 38400);
    two.lflag &= ~ECHO;
    CHECK(ioctl(slave, TCSETS2, &two) == 0);
    struct termio old;
    CHECK(ioctl(slave, TCGETA, &old) == 0 && (old.c_lflag & ECHO) == 0 && old.c_cc[0] == 3);
    old.c_lflag |= ECHO;
    CHECK(ioctl(slave, TCSETA, &old) == 0);
    struct termios settings;
    CHECK(tcgetattr(slave, &settings) == 0 && (settings.c_lflag & ECHO) && settings.c_cc[VINTR] == 3);
    FAILS(ioctl(slave, TCFLSH, 3), EINVAL);
    FAILS(ioctl(slave, TIOCSIG, SIGINT), ENOTTY);
}

static void marked_packets(void) {
    int master = make_master(), on = 1;
    int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY);
    CHECK(slave >= 0);
    CHECK(ioctl(master, TIOCPKT, &on) == 0);
    int value = 0;
    CHECK(ioctl(master, TIOCGPKT, &value) == 0 && value == 1);
    CHECK(write(slave, "out", 3) == 3);
    char bytes[16];
    CHECK(read(master, bytes, sizeof bytes) == 4 && memcmp(bytes, "\0out", 4) == 0);
    CHECK(tcflush(slave, TCIFLUSH) == 0);
    CHECK(read(master, bytes, sizeof bytes) == 1 && bytes[0] == TIOCPKT_FLUSHREAD);
    FAILS(ioctl(master, TIOCSIG, SIGKILL), EINVAL);
    close(slave);
    close(master);
    done("a master reads packets");
}

int main(void) {
    CHECK(pipe(news) == 0);
    a_peer_is_the_node();
    many_terminals();
    CHECK(in_session(reader, type_yes) == 0);
    done("a background reader is stopped, and reads in the foreground");
    CHECK(in_session(setter, NULL) == 0);
    done("a background group that changes settings is stopped");
    CHECK(in_session(writer, NULL) == 0);
    done("a background writer is stopped if the terminal says so");
    CHECK(in_session(withstander, NULL) == 0);
    done("who ignores the signals may change and not read");
    CHECK(in_session(leave_a_stopped_child, NULL) == 0);
    expect_news("hc");
    done("a stopped group that is orphaned hears and goes on");
    CHECK(in_session(leave_a_foreground_child, NULL) == 0);
    expect_news("h");
    done("the foreground hears of the end of its session's leader");
    CHECK(in_session(leave_a_reader, await_reader) == 0);
    done("a terminal without a session stops nobody");
    CHECK(in_session(small_requests, NULL) == 0);
    done("small requests");
    marked_packets();
    done("terminals");
    return 0;
}
