// Small things on which hosted programs stumble: a backlog of -1, options that were never set, directories of numbers that change.
#include "check.h"
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

static void a_negative_backlog_is_a_long_one(void) {
    int server = socket(AF_INET, SOCK_STREAM, 0), clients[40];
    struct sockaddr_in address = {AF_INET, 0, {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof address;
    CHECK(bind(server, (void *)&address, length) == 0 && listen(server, -1) == 0);
    CHECK(getsockname(server, (void *)&address, &length) == 0);
    for (int i = 0; i < 40; i++) {
        clients[i] = socket(AF_INET, SOCK_STREAM, 0);
        CHECK(connect(clients[i], (void *)&address, sizeof address) == 0);
    }
    for (int i = 0; i < 40; i++) {
        int accepted = accept(server, NULL, NULL);
        CHECK(accepted >= 0);
        close(accepted);
        close(clients[i]);
    }
    close(server);
    done("a negative backlog is a long one");
}

static int option(int socket, int level, int name) {
    int value = -77;
    socklen_t length = sizeof value;
    CHECK(getsockopt(socket, level, name, &value, &length) == 0);
    return value;
}

static void options_that_were_never_set(void) {
    int tcp = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(option(tcp, IPPROTO_TCP, TCP_USER_TIMEOUT) == 0);
    CHECK(option(tcp, IPPROTO_TCP, TCP_SYNCNT) > 0);
    CHECK(option(tcp, IPPROTO_TCP, TCP_LINGER2) == 60);
    CHECK(option(tcp, IPPROTO_TCP, TCP_NODELAY) == 0);
    CHECK(option(tcp, IPPROTO_TCP, TCP_KEEPIDLE) == 7200);
    CHECK(option(tcp, IPPROTO_IP, IP_TTL) == 64);
    CHECK(option(tcp, IPPROTO_IP, IP_TOS) == 0);
    CHECK(option(tcp, SOL_SOCKET, SO_RCVLOWAT) == 1);
    CHECK(option(tcp, SOL_SOCKET, SO_PRIORITY) == 0);
    CHECK(option(tcp, SOL_SOCKET, SO_OOBINLINE) == 0);
    CHECK(option(tcp, SOL_SOCKET, SO_DONTROUTE) == 0);
    int value = 5;
    CHECK(setsockopt(tcp, IPPROTO_IP, IP_TTL, &value, sizeof value) == 0 && option(tcp, IPPROTO_IP, IP_TTL) == 5);
    FAILS(getsockopt(tcp, IPPROTO_TCP, 9999, &value, &(socklen_t){sizeof value}), ENOPROTOOPT);
    close(tcp);
    done("options that were never set");
}

// Closes each descriptor that the directory shows, while it reads the directory in small pieces.
static void descriptors_that_close_while_they_are_listed(void) {
    int dup_of = open("/dev/null", O_RDONLY), opened = 0;
    for (int fd = 100; fd < 300; fd++)
        opened += dup2(dup_of, fd) == fd;
    CHECK(opened == 200);
    int directory = open("/proc/self/fd", O_RDONLY | O_DIRECTORY);
    CHECK(directory >= 0);
    char buffer[200];
    int closed = 0;
    for (;;) {
        long count = syscall(SYS_getdents64, directory, buffer, sizeof buffer);
        CHECK(count >= 0);
        if (count == 0)
            break;
        for (long at = 0; at < count;) {
            unsigned short length = *(unsigned short *)(buffer + at + 16);
            int fd = atoi(buffer + at + 19);
            if (fd >= 100 && fd < 300) {
                CHECK(close(fd) == 0);
                closed++;
            }
            at += length;
        }
    }
    CHECK(closed == 200);
    close(directory);
    close(dup_of);
    done("descriptors that close while they are listed");
}

int main(void) {
    a_negative_backlog_is_a_long_one();
    options_that_were_never_set();
    descriptors_that_close_while_they_are_listed();
    done("small_things");
    return 0;
}
