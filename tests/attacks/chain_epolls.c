/* Attack: interest lists in lists, from the top down, three layers of n (each addition looked at n^3 items), and very many items
   that end at once. */
#include "attack.h"
#include "../linux/depth.h"
#include <sys/eventfd.h>

enum { CHAIN = 900, WIDE = 200, LISTS = 450, ITEMS = 450 };

static void chain(void) {
    static int lists[CHAIN];
    int ends[2];
    CHECK(pipe(ends) == 0);
    for (int at = 0; at < CHAIN; at++) {
        lists[at] = list_of();
        if (at > 0) add_to(lists[at - 1], lists[at]);
    }
    add_to(lists[CHAIN - 1], ends[0]);
    CHECK(write(ends[1], "x", 1) == 1);
    struct epoll_event event;
    for (int at = 0; at < CHAIN; at++) CHECK(epoll_wait(lists[at], &event, 1, 0) >= 0);
    for (int at = 0; at < CHAIN; at++) CHECK(close(lists[at]) == 0);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
}

static void layers(void) {
    static int lists[3][WIDE];
    int ends[2], refused = 0;
    CHECK(pipe(ends) == 0);
    for (int layer = 0; layer < 3; layer++)
        for (int at = 0; at < WIDE; at++) lists[layer][at] = list_of();
    for (int layer = 1; layer < 3; layer++)
        for (int outer = 0; outer < WIDE; outer++)
            for (int inner = 0; inner < WIDE; inner++) refused += add_to(lists[layer][outer], lists[layer - 1][inner]) != 0;
    for (int at = 0; at < WIDE; at++) add_to(lists[0][at], ends[0]);
    dprintf(1, "%d of %d nests refused\n", refused, 2 * WIDE * WIDE);
    struct epoll_event event;
    char byte;
    /* A change over what is left is told and looked at. */
    CHECK(SOON(2000, {
        int outer = list_of();
        add_to(outer, lists[2][0]);
        CHECK(write(ends[1], "x", 1) == 1);
        for (int at = 0; at < WIDE; at++) CHECK(epoll_wait(lists[2][at], &event, 1, 0) >= 0);
        CHECK(read(ends[0], &byte, 1) == 1 && close(outer) == 0);
    }));
}

/* 202,500 items over 450 files of one process, which is killed, or closes all at once. */
static void items(int killed) {
    int ended_by = IN_CHILD({
        static int counters[ITEMS];
        for (int at = 0; at < ITEMS; at++) CHECK((counters[at] = eventfd(0, 0)) >= 0);
        for (int list = 0; list < LISTS; list++) {
            int at_list = list_of();
            for (int at = 0; at < ITEMS; at++) CHECK(add_to(at_list, counters[at]) == 0);
        }
        for (int at = 0; at < ITEMS; at++) CHECK(eventfd_write(counters[at], 1) == 0);
        if (killed) raise(SIGKILL);
        CHECK(syscall(SYS_close_range, 3, ~0U, 0) == 0);
    });
    CHECK(ended_by == (killed ? SIGKILL : 0));
}

int main(void) {
    attack_begin();
    raise_limit(8192);
    chain();
    CHECK(IN_CHILD(layers()) == 0);
    items(0);
    items(1);
    done("chain_epolls");
    return 0;
}
