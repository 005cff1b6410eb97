/* Sends frames by the clock to one client, which answers each with a byte: `frames PORT FRAMES_PER_S BYTES`. The time from a frame's moment to
 * its answer is a heartbeat. */
#include <gyre.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static int client_of(int port) {
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on)) return -1;
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 1)) return -1;
    int client = accept(listener, NULL, NULL);
    if (client >= 0) setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return client;
}

static int send_all(int client, const char *frame, size_t bytes) {
    for (size_t sent = 0; sent < bytes;) {
        ssize_t more = send(client, frame + sent, bytes - sent, MSG_NOSIGNAL);
        if (more <= 0) return 0;
        sent += more;
    }
    return 1;
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    uint64_t period = 1000000000ull / atol(argv[2]);
    size_t bytes = atol(argv[3]);
    char *frame = calloc(1, bytes), answer;
    struct gyre_beats *page = gyre_goal("frames", GYRE_GOAL_NONE, 0);
    if (!frame || !page) return 3;
    int client = client_of(atoi(argv[1]));
    if (client < 0) return 4;
    for (uint64_t due = now_ns();; due += period) {
        uint64_t now = now_ns();
        if (now < due) {
            struct timespec pause = {(due - now) / 1000000000, (due - now) % 1000000000};
            nanosleep(&pause, NULL);
        }
        if (!send_all(client, frame, bytes) || read(client, &answer, 1) != 1) return 0;
        gyre_beat(page, now_ns() - due);
        /* Frames that are late for long are left out. */
        if (now_ns() > due + 10 * period) due = now_ns() - period;
    }
}
