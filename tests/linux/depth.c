/* Depth that a program chooses: chains and rings of sockets in flight, nests of interest lists, their bounds and their ends. */
#include "depth.h"

static void chains(void) {
    for (int round = 0; round < 100; round++) {
        int ends[2];
        CHECK(pipe(ends) == 0);
        int held = chain_of_sockets(round == 0 ? 500 : 10, ends[1]);
        CHECK(!hangs_up(ends[0], 0));
        CHECK(close(held) == 0);
        CHECK(hangs_up(ends[0], -1));
        CHECK(close(ends[0]) == 0);
    }
}

/* Things in a chain come out of it again, link by link. */
static void unpacked(void) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    int held = chain_of_sockets(200, ends[1]);
    for (int at = 0; at < 200; at++) {
        int inner = receive_fd(held);
        CHECK(close(held) == 0);
        held = inner;
    }
    CHECK(write(held, "x", 1) == 1 && close(held) == 0);
    char letter;
    CHECK(read(ends[0], &letter, 1) == 1 && read(ends[0], &letter, 1) == 0);
    CHECK(close(ends[0]) == 0);
}

/* Rings of sockets that only one another hold, with a pipe in one of them. */
static void rings(void) {
    for (int length = 1; length <= 6; length++) {
        int ends[2], pairs[6][2];
        CHECK(pipe(ends) == 0);
        for (int at = 0; at < length; at++) CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[at]) == 0);
        CHECK(send_fd(pairs[0][0], ends[1]) == 0 && close(ends[1]) == 0);
        for (int at = 0; at < length; at++) CHECK(send_fd(pairs[(at + 1) % length][0], pairs[at][1]) == 0);
        for (int at = 0; at < length; at++) CHECK(close(pairs[at][1]) == 0);
        CHECK(!hangs_up(ends[0], 0));
        for (int at = 0; at < length; at++) CHECK(close(pairs[at][0]) == 0);
        CHECK(hangs_up(ends[0], -1));
        CHECK(close(ends[0]) == 0);
    }
}

/* More rings than sockets may be in flight, if none came back. */
static void many_rings(void) {
    for (int round = 0; round < 5000; round++) {
        int pair[2];
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
        int error = send_fd(pair[0], pair[1]);
        while (error == ETOOMANYREFS) {
            sleep_ms(5);
            error = send_fd(pair[0], pair[1]);
        }
        CHECK(error == 0);
        CHECK(close(pair[0]) == 0 && close(pair[1]) == 0);
    }
}

static int ready(int fd) {
    struct pollfd entry = {.fd = fd, .events = POLLIN};
    return poll(&entry, 1, 0);
}

static void nests(int downwards) {
    int lists[7], ends[2], good = 0;
    CHECK(pipe(ends) == 0);
    for (int at = 0; at < 7; at++) lists[at] = list_of();
    for (int at = 0; at < 6; at++) {
        int error = downwards ? add_to(lists[at], lists[at + 1]) : add_to(lists[at + 1], lists[at]);
        if (error != 0) {
            CHECK(error == ELOOP || error == EINVAL);
            break;
        }
        good++;
    }
    CHECK(good == 4);
    int top = downwards ? lists[0] : lists[4], bottom = downwards ? lists[4] : lists[0];
    CHECK(add_to(bottom, ends[0]) == 0 && ready(top) == 0);
    CHECK(write(ends[1], "x", 1) == 1 && ready(top) == 1);
    char letter;
    CHECK(read(ends[0], &letter, 1) == 1 && ready(top) == 0);
    CHECK(add_to(bottom, top) == ELOOP && add_to(top, top) == EINVAL);
    /* The middle goes: above it nothing is told any more, and there is room for another nest. */
    CHECK(close(lists[2]) == 0 && write(ends[1], "x", 1) == 1 && ready(top) == 0);
    CHECK(add_to(lists[5], top) == 0);
    for (int at = 0; at < 7; at++) close(lists[at]);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
}

/* One list in many: so many ways has a wake-up at most. */
static void ways(void) {
    int ends[2], bottom = list_of(), tops[600], good = 0, error = 0;
    CHECK(pipe(ends) == 0 && add_to(bottom, ends[0]) == 0);
    while (good < 600 && error == 0) {
        tops[good] = list_of();
        error = add_to(tops[good], bottom);
        good += error == 0;
    }
    CHECK(good == 500 && error == EINVAL);
    CHECK(write(ends[1], "x", 1) == 1);
    for (int at = 0; at < good; at++) CHECK(ready(tops[at]) == 1);
    for (int at = 0; at <= good; at++) CHECK(close(tops[at]) == 0);
    CHECK(add_to(list_of(), bottom) == 0);
    CHECK(close(bottom) == 0 && close(ends[0]) == 0 && close(ends[1]) == 0);
}

/* A list with many items that are no longer ready tells nothing, however long it looks. */
static void stale(void) {
    enum { COUNT = 400 };
    static int ends[COUNT][2];
    int inner = list_of(), outer = list_of();
    CHECK(add_to(outer, inner) == 0);
    for (int at = 0; at < COUNT; at++) {
        CHECK(pipe(ends[at]) == 0 && add_to(inner, ends[at][0]) == 0);
        CHECK(write(ends[at][1], "x", 1) == 1);
    }
    char letter;
    for (int at = 0; at < COUNT - 1; at++) CHECK(read(ends[at][0], &letter, 1) == 1);
    struct epoll_event event;
    CHECK(epoll_wait(outer, &event, 1, 0) == 1 && event.data.fd == inner);
    CHECK(epoll_wait(inner, &event, 1, 0) == 1 && event.data.fd == ends[COUNT - 1][0]);
    CHECK(read(ends[COUNT - 1][0], &letter, 1) == 1);
    CHECK(epoll_wait(outer, &event, 1, 0) == 0 && epoll_wait(inner, &event, 1, 0) == 0);
    for (int at = 0; at < COUNT; at++) CHECK(close(ends[at][0]) == 0 && close(ends[at][1]) == 0);
    CHECK(close(inner) == 0 && close(outer) == 0);
}

int main(void) {
    raise_limit(8192);
    chains();
    unpacked();
    rings();
    many_rings();
    nests(0);
    nests(1);
    ways();
    stale();
    done("depth");
    return 0;
}
