/* A service that works for nobody; the broker goes on beside it (tests/boot/services). It reads and answers nothing on its first connection.
 * On each later one it answers all messages with two clients, each of which has 2^32 - 1 thousandths of it.
 *
 * The form of the answer is that of user/services/src/protocol.rs in postcard: variant 2, then a list of lines. */
#include "check.h"
#include "gyre.h"

static const unsigned char LIES[] = {
    2, 2,                                                /* fractions of two clients */
    1, 'a', 0xff, 0xff, 0xff, 0xff, 0x0f, 1, 0, 0, 0, 0, /* a name, a fraction, a goal, and four figures */
    1, 'b', 0xff, 0xff, 0xff, 0xff, 0x0f, 1, 0, 0, 0, 0,
};

/* Answers all messages of a connection. */
static void lie(int end) {
    static char question[GYRE_CHANNEL_MESSAGE_MAX];
    while (gyre_channel_read(end, question, sizeof question) > 0)
        if (gyre_channel_write(end, LIES, sizeof LIES) < 0) break;
    CHECK(gyre_channel_close(end) == 0);
}

int main(void) {
    int listener = gyre_channel_listen("service", 0, 0);
    CHECK(listener >= 0 && gyre_channel_accept(listener, 0) >= 0);
    for (;;) {
        int end = gyre_channel_accept(listener, 0);
        CHECK(end >= 0);
        lie(end);
    }
}
