/* Attack: sockets in flight in long chains and wide ones, whose last descriptor is closed, or whose process is killed. */
#include "attack.h"
#include "../linux/depth.h"


int main(void) {
    attack_begin();
    raise_limit(65536);
    for (int length = 100; length <= 3600; length += 1750) {
        int ends[2];
        CHECK(pipe(ends) == 0);
        close(chain_of_sockets(length, ends[1]));
        CHECK(hangs_up(ends[0], -1));
        CHECK(close(ends[0]) == 0);
    }
    /* It stays open until its process ends or is killed. */
    for (int round = 0; round < 6; round++) {
        int ends[2];
        CHECK(pipe(ends) == 0);
        int ended_by = IN_CHILD({
            chain_of_sockets(1000, ends[1]);
            if (round % 2) raise(SIGKILL);
        });
        CHECK(ended_by == (round % 2 ? SIGKILL : 0));
        CHECK(close(ends[1]) == 0 && hangs_up(ends[0], -1) && close(ends[0]) == 0);
    }
    /* Each socket holds many others. */
    for (int round = 0; round < 10; round++) {
        int pair[2], other[2];
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
        for (int at = 0; at < 200; at++) {
            CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, other) == 0);
            CHECK(send_fd(other[0], pair[1]) == 0 && send_fd(pair[0], other[1]) == 0);
            CHECK(close(other[0]) == 0 && close(other[1]) == 0);
        }
        CHECK(close(pair[0]) == 0 && close(pair[1]) == 0);
    }
    done("chain_sockets");
    return 0;
}
