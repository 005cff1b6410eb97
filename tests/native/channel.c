/* Channels: messages arrive whole and in order, poll and epoll know them, pages are shared, and whoever does what it should not gets a clear
 * error. Without arguments all of it within one tenant; with them one side of an exchange between two:
 *
 *   channel serve NAME            answers each message of each connection with its bytes plus one, until one says "end"
 *   channel ask TENANT/NAME N     sends N messages and checks the answers, and what the server left in the shared pages
 *   channel try TENANT/NAME       says how a connection is answered
 *   channel hold TENANT/NAME      waits for a message that does not come, and says how that ends, and how a write ends then
 *
 * On Linux the calls are missing, and the test says so. */
#include "check.h"
#include "gyre.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/uio.h>

#define PAGES 3
#define LARGEST GYRE_CHANNEL_MESSAGE_MAX

static char data[LARGEST + 1], got[LARGEST + 1];
/* The compiler is not to know that nothing is there. */
static void *volatile nowhere = (void *)8;

static short ready(int fd) {
    struct pollfd one = {.fd = fd, .events = POLLIN | POLLOUT};
    CHECK(poll(&one, 1, 0) >= 0);
    return one.revents;
}

static void fill(char *bytes, size_t count, int seed) {
    for (size_t i = 0; i < count; i++) bytes[i] = (char)(i * 7 + seed);
}

static void pair(int *one, int *other, unsigned pages) {
    int listener = gyre_channel_listen("pair", PAGES, 0);
    CHECK(listener >= 0);
    CHECK((*one = gyre_channel_connect("pair", pages, 0)) >= 0);
    CHECK((*other = gyre_channel_accept(listener, 0)) >= 0);
    CHECK(close(listener) == 0);
}

static void names(void) {
    FAILS(gyre_channel_connect("nobody", 0, 0), ECONNREFUSED);
    FAILS(gyre_channel_connect("no-such-tenant/x", 0, 0), ECONNREFUSED);
    FAILS(gyre_channel_listen("another/x", 0, 0), EACCES);
    FAILS(gyre_channel_listen("", 0, 0), EINVAL);
    FAILS(gyre_channel_listen("a/b/c", 0, 0), EINVAL);
    FAILS(gyre_channel_listen("space here", 0, 0), EINVAL);
    FAILS(gyre_channel_listen("x", GYRE_CHANNEL_PAGES_MAX + 1, 0), EINVAL);
    FAILS(gyre_channel_listen("x", 0, 4), EINVAL);
    FAILS(syscall(GYRE_CHANNEL_OPEN, 8, 4, 0, 1), EFAULT);
    FAILS(syscall(GYRE_CHANNEL_OPEN, "x", 1L << 40, 0, 1), EINVAL);
    int listener = gyre_channel_listen("x", PAGES, GYRE_CHANNEL_NONBLOCK);
    CHECK(listener >= 0 && (fcntl(listener, F_GETFD) & FD_CLOEXEC));
    FAILS(gyre_channel_listen("x", 0, 0), EADDRINUSE);
    FAILS(gyre_channel_accept(listener, 0), EAGAIN);
    FAILS(gyre_channel_connect("x", PAGES + 1, 0), EINVAL);
    FAILS(read(listener, got, 1), EINVAL);
    FAILS(write(listener, data, 1), EINVAL);
    FAILS(gyre_channel_map(listener) ? 0 : -1, EINVAL);
    int ends[64], count = 0;
    while ((ends[count] = gyre_channel_connect("x", 0, 0)) >= 0) CHECK(++count < 64);
    CHECK(errno == EAGAIN && count == 16 && ready(listener) == POLLIN);
    CHECK(gyre_channel_close(listener) == 0);
    for (int i = 0; i < count; i++) {
        CHECK(read(ends[i], got, 1) == 0);
        CHECK(close(ends[i]) == 0);
    }
    CHECK((listener = gyre_channel_listen("x", 0, 0)) >= 0);
    CHECK(close(listener) == 0);
}

static void messages(void) {
    int one, other;
    pair(&one, &other, 0);
    CHECK(ready(one) == POLLOUT && ready(other) == POLLOUT);
    for (size_t bytes = 1; bytes <= LARGEST; bytes = bytes * 3 + 1) {
        fill(data, bytes, (int)bytes);
        CHECK(gyre_channel_write(one, data, bytes) == (int64_t)bytes);
        CHECK(ready(other) == (POLLIN | POLLOUT));
        if (bytes > 1) FAILS(gyre_channel_read(other, got, bytes - 1), EMSGSIZE);
        CHECK(read(other, got, sizeof got) == (ssize_t)bytes && memcmp(data, got, bytes) == 0);
    }
    FAILS(write(one, data, LARGEST + 1), EMSGSIZE);
    FAILS(write(one, nowhere, 100), EFAULT);
    CHECK(write(one, data, 0) == 0 && ready(other) == POLLOUT);
    struct iovec pieces[2] = {{data, 3}, {data + 100, 5}};
    CHECK(writev(one, pieces, 2) == 8 && read(other, got, 100) == 8 && memcmp(got + 3, data + 100, 5) == 0);
    CHECK(fcntl(other, F_SETFL, O_NONBLOCK) == 0);
    FAILS(read(other, got, 100), EAGAIN);
    FAILS(gyre_channel_read(0, got, 1), EINVAL);
    FAILS(gyre_channel_read(999, got, 1), EBADF);
    FAILS(gyre_channel_close(0), EINVAL);
    FAILS(gyre_channel_accept(one, 0), EINVAL);
    CHECK(fcntl(one, F_SETFL, O_NONBLOCK) == 0);
    int count = 0;
    while (write(one, data, LARGEST) == LARGEST) CHECK(++count < 100);
    CHECK(errno == EAGAIN && count == 4 && ready(one) == 0);
    CHECK(read(other, got, sizeof got) == LARGEST && ready(one) == POLLOUT);
    struct gyre_channel_figures figures;
    CHECK(gyre_channel_figures(other, &figures) == 0);
    CHECK(figures.waiting == 3 && figures.next_bytes == LARGEST && figures.pages == 0 && figures.peer[0] != 0);
    CHECK(close(one) == 0);
    signal(SIGPIPE, SIG_IGN);
    FAILS(write(other, data, 1), EPIPE);
    CHECK((ready(other) & (POLLIN | POLLHUP)) == (POLLIN | POLLHUP));
    for (int i = 0; i < 3; i++) CHECK(read(other, got, sizeof got) == LARGEST);
    CHECK(read(other, got, sizeof got) == 0);
    CHECK(close(other) == 0);
}

/* A reader that waits is woken, by poll and by epoll; order is kept. */
static void waits(void) {
    int one, other;
    pair(&one, &other, 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        close(other);
        for (uint32_t i = 0; i < 3000; i++) CHECK(write(one, &i, sizeof i) == sizeof i);
        _exit(0);
    }
    close(one);
    int list = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    CHECK(list >= 0 && epoll_ctl(list, EPOLL_CTL_ADD, other, &event) == 0);
    for (uint32_t i = 0, seen; i < 3000; i++) {
        CHECK(i % 2 || epoll_wait(list, &event, 1, -1) == 1);
        CHECK(read(other, &seen, sizeof seen) == sizeof seen && seen == i);
    }
    CHECK(read(other, got, 1) == 0 && status_of(child) == 0);
    CHECK(close(list) == 0 && close(other) == 0);
}

static void pages(void) {
    int one, other;
    pair(&one, &other, PAGES);
    volatile char *here = gyre_channel_map(one), *there = gyre_channel_map(other);
    CHECK(here != NULL && there != NULL && here != there && here[PAGES * 4096 - 1] == 0);
    here[4096] = 77;
    CHECK(there[4096] == 77);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        there[2 * 4096] = 78;
        _exit(0);
    }
    CHECK(status_of(child) == 0 && here[2 * 4096] == 78);
    FAILS(gyre_channel_unmap(one, (char *)here + 4096), EINVAL);
    FAILS(gyre_channel_unmap(one, data), EINVAL);
    CHECK(gyre_channel_unmap(one, (void *)here) == 0);
    FAILS(gyre_channel_unmap(one, (void *)here), EINVAL);
    CHECK(close(one) == 0 && close(other) == 0);
    CHECK(there[4096] == 77); /* for as long as it is mapped */
    pair(&one, &other, 0);
    FAILS(gyre_channel_map(one) ? 0 : -1, EINVAL);
    CHECK(close(one) == 0 && close(other) == 0);
}

static int serve(const char *name) {
    int listener = gyre_channel_listen(name, PAGES, 0);
    CHECK(listener >= 0);
    for (;;) {
        int end = gyre_channel_accept(listener, 0);
        CHECK(end >= 0);
        char *shared = gyre_channel_map(end);
        for (ssize_t bytes; (bytes = read(end, got, sizeof got)) > 0;) {
            if (bytes == 3 && memcmp(got, "end", 3) == 0) return 0;
            for (ssize_t i = 0; i < bytes; i++) got[i]++;
            if (shared) memcpy(shared, got, bytes < PAGES * 4096 ? bytes : PAGES * 4096);
            if (write(end, got, bytes) != bytes) break;
        }
        if (shared) CHECK(gyre_channel_unmap(end, shared) == 0);
        close(end);
    }
}

static int ask(const char *name, int count) {
    int end = -1;
    for (int tries = 0; tries < 1000 && (end = gyre_channel_connect(name, PAGES, 0)) < 0; tries++) sleep_ms(100);
    CHECK(end >= 0);
    volatile char *shared = gyre_channel_map(end);
    CHECK(shared != NULL);
    for (int i = 0; i < count; i++) {
        size_t bytes = 1 + (size_t)i * 911 % LARGEST;
        fill(data, bytes, i);
        CHECK(write(end, data, bytes) == (ssize_t)bytes && read(end, got, sizeof got) == (ssize_t)bytes);
        for (size_t at = 0; at < bytes; at++) CHECK((char)(data[at] + 1) == got[at]);
        CHECK(shared[0] == got[0]);
    }
    struct gyre_channel_figures figures;
    CHECK(gyre_channel_figures(end, &figures) == 0);
    CHECK((int)figures.sent == count && (int)figures.received == count && figures.pages == PAGES);
    printf("asked %s: %d messages, %llu bytes each way\n", figures.peer, count, (unsigned long long)figures.sent_bytes);
    return 0;
}

static int try(const char *name) {
    int end = gyre_channel_connect(name, 0, 0);
    puts(end < 0 ? strerrorname_np(errno) : "connected");
    return 0;
}

static int hold(const char *name) {
    int end = gyre_channel_connect(name, PAGES, 0);
    CHECK(end >= 0);
    volatile char *shared = gyre_channel_map(end);
    CHECK(shared != NULL);
    shared[0] = 9;
    struct pollfd one = {.fd = end, .events = POLLIN};
    puts("holds");
    fflush(stdout);
    CHECK(poll(&one, 1, -1) == 1 && (one.revents & (POLLIN | POLLHUP)));
    printf("read %s ", read(end, got, sizeof got) < 0 ? strerrorname_np(errno) : "0");
    printf("write %s ", write(end, data, 1) < 0 ? strerrorname_np(errno) : "1");
    printf("page %d\n", shared[0]);
    return 0;
}

int main(int count, char **words) {
    if (gyre_channel_connect("nobody", 0, 0) == -1 && errno == ENOSYS) {
        puts("no channels here");
        done("channel");
        return 0;
    }
    signal(SIGPIPE, SIG_IGN);
    if (count == 3 && strcmp(words[1], "serve") == 0) return serve(words[2]);
    if (count == 3 && strcmp(words[1], "try") == 0) return try(words[2]);
    if (count == 3 && strcmp(words[1], "hold") == 0) return hold(words[2]);
    if (count == 4 && strcmp(words[1], "ask") == 0) return ask(words[2], atoi(words[3]));
    names();
    messages();
    waits();
    pages();
    done("channel");
    return 0;
}
