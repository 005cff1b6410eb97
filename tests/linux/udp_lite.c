/* UDP-Lite: its sockets, the coverage of their checksums, ports of their own, and their place in /proc. */
#include "check.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LITE 136
#define SENT 10
#define RECEIVED 11

static int socket_of(int protocol) {
    int fd = socket(AF_INET, SOCK_DGRAM, protocol);
    CHECK(fd >= 0);
    return fd;
}

static struct sockaddr_in bound(int fd, int port) {
    struct sockaddr_in end = {.sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof end;
    CHECK(bind(fd, (struct sockaddr *)&end, bytes) == 0 && getsockname(fd, (struct sockaddr *)&end, &bytes) == 0);
    return end;
}

static int option(int fd, int level, int name) {
    int value = -1;
    socklen_t bytes = sizeof value;
    CHECK(getsockopt(fd, level, name, &value, &bytes) == 0 && bytes == sizeof value);
    return value;
}

static void options_are_kept(void) {
    int lite = socket_of(LITE), plain = socket_of(0), stream = socket(AF_INET, SOCK_STREAM, 0), value;
    socklen_t bytes = sizeof value;
    CHECK(option(lite, SOL_SOCKET, SO_PROTOCOL) == LITE && option(lite, LITE, SENT) == 0 && option(lite, LITE, RECEIVED) == 0);
    const int asked[][2] = {{20, 20}, {0, 0}, {3, 8}, {-5, 8}, {100000, 65535}};
    for (int i = 0; i < 5; i++)
        for (int name = SENT; name <= RECEIVED; name++)
            CHECK(setsockopt(lite, LITE, name, &asked[i][0], sizeof(int)) == 0 && option(lite, LITE, name) == asked[i][1]);
    FAILS(setsockopt(lite, LITE, SENT, &value, 3), EINVAL);
    FAILS(setsockopt(lite, LITE, 12, &bytes, sizeof bytes), ENOPROTOOPT);
    FAILS(setsockopt(plain, LITE, SENT, &bytes, sizeof bytes), ENOPROTOOPT);
    CHECK(option(plain, LITE, SENT) == 0);
    FAILS(getsockopt(stream, LITE, SENT, &value, &bytes), EOPNOTSUPP);
    FAILS(socket(AF_INET, SOCK_STREAM, LITE), EPROTONOSUPPORT);
    close(lite), close(plain), close(stream);
}

static int is_listed(const char *path, int port) {
    char text[16384], wanted[16];
    int fd = open(path, O_RDONLY);
    ssize_t bytes = read(fd, text, sizeof text - 1);
    CHECK(fd >= 0 && bytes > 0);
    close(fd);
    text[bytes] = 0;
    snprintf(wanted, sizeof wanted, ":%04X ", ntohs(port));
    return strstr(text, wanted) != NULL;
}

static void datagrams_arrive(void) {
    int from = socket_of(LITE), to = socket_of(LITE), plain = socket_of(0), ten = 10, eleven = 11, none = 0;
    struct sockaddr_in end = bound(to, 0);
    bound(plain, end.sin_port);
    char data[64];
    CHECK(connect(from, (struct sockaddr *)&end, sizeof end) == 0);
    CHECK(send(from, "whole", 5, 0) == 5 && recv(to, data, sizeof data, 0) == 5 && !memcmp(data, "whole", 5));
    CHECK(setsockopt(from, LITE, SENT, &ten, sizeof ten) == 0);
    CHECK(send(from, "partial", 7, 0) == 7 && recv(to, data, sizeof data, 0) == 7 && !memcmp(data, "partial", 7));
    /* The receiver wants more covered than that, then as much, then all. */
    CHECK(setsockopt(to, LITE, RECEIVED, &eleven, sizeof eleven) == 0 && send(from, "less", 4, 0) == 4);
    /* A short one behind it is covered as a whole, and comes alone. */
    CHECK(send(from, "so", 2, 0) == 2 && recv(to, data, sizeof data, 0) == 2 && !memcmp(data, "so", 2));
    FAILS(recv(to, data, sizeof data, MSG_DONTWAIT), EAGAIN);
    CHECK(setsockopt(to, LITE, RECEIVED, &ten, sizeof ten) == 0 && send(from, "enough", 6, 0) == 6);
    CHECK(recv(to, data, sizeof data, 0) == 6 && !memcmp(data, "enough", 6));
    CHECK(setsockopt(to, LITE, RECEIVED, &none, sizeof none) == 0 && send(from, "part", 4, 0) == 4 && send(from, "of", 2, 0) == 2);
    CHECK(recv(to, data, sizeof data, 0) == 2 && !memcmp(data, "of", 2));
    FAILS(recv(plain, data, sizeof data, MSG_DONTWAIT), EAGAIN);
    CHECK(is_listed("/proc/net/udplite", end.sin_port) && is_listed("/proc/net/udp", end.sin_port));
    close(plain);
    CHECK(is_listed("/proc/net/udplite", end.sin_port) && !is_listed("/proc/net/udp", end.sin_port));
    close(to);
    CHECK(send(from, "nobody", 6, 0) == 6);
    FAILS(recv(from, data, sizeof data, 0), ECONNREFUSED);
    close(from);
}

int main(void) {
    options_are_kept();
    datagrams_arrive();
    printf("ok udp_lite\n");
    return 0;
}
