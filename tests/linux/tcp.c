/* TCP over loopback: without waiting, edge-triggered, options, ends, errors. */
#include "check.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

static struct sockaddr_in loopback(unsigned short port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return address;
}

static int wait_for(int fd, short events)
{
    struct pollfd entry = {fd, events, 0};
    CHECK(poll(&entry, 1, -1) == 1);
    return entry.revents;
}

int main(void)
{
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;
    CHECK(listener >= 0);
    CHECK(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
    struct sockaddr_in address = loopback(0), peer;
    socklen_t length = sizeof address;
    CHECK(bind(listener, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&address, &length) == 0 && length == sizeof address && address.sin_port != 0);
    CHECK(listen(listener, 8) == 0);
    FAILS(accept4(listener, NULL, NULL, 0), EAGAIN);

    int client = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    int list = epoll_create1(0);
    struct epoll_event wish = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.fd = client}, event;
    CHECK(epoll_ctl(list, EPOLL_CTL_ADD, client, &wish) == 0);
    int started = connect(client, (struct sockaddr *)&address, sizeof address);
    CHECK(started == 0 || errno == EINPROGRESS);
    CHECK(wait_for(client, POLLOUT) == POLLOUT);
    int error = 1;
    length = sizeof error;
    CHECK(getsockopt(client, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0);
    CHECK(wait_for(listener, POLLIN) == POLLIN);
    length = sizeof peer;
    int server = accept4(listener, (struct sockaddr *)&peer, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
    CHECK(server >= 0 && peer.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
    CHECK(setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
    while (epoll_wait(list, &event, 1, 0) > 0)
        ;
    char text[64];
    FAILS(recv(client, text, sizeof text, 0), EAGAIN);
    CHECK(send(server, "hello", 5, 0) == 5);
    CHECK(epoll_wait(list, &event, 1, -1) == 1 && (event.events & EPOLLIN) && event.data.fd == client);
    CHECK(recv(client, text, sizeof text, MSG_PEEK) == 5 && recv(client, text, sizeof text, 0) == 5);
    FAILS(recv(client, text, sizeof text, 0), EAGAIN);

    static char big[1 << 20];
    size_t sent = 0, received = 0;
    while (received < sizeof big) {
        long count = sent < sizeof big ? send(server, big + sent, sizeof big - sent, 0) : 0;
        CHECK(count >= 0 || errno == EAGAIN);
        sent += count > 0 ? count : 0;
        wait_for(client, POLLIN);
        count = recv(client, big, 50000, 0);
        CHECK(count > 0 || errno == EAGAIN);
        received += count > 0 ? count : 0;
    }
    CHECK(shutdown(server, SHUT_WR) == 0);
    CHECK(wait_for(client, POLLIN | POLLRDHUP) & POLLRDHUP);
    CHECK(recv(client, text, 1, 0) == 0);
    CHECK(send(client, "late", 4, 0) == 4);
    wait_for(server, POLLIN);
    CHECK(recv(server, text, 64, 0) == 4);
    close(client), close(server), close(listener);

    int refused = socket(AF_INET, SOCK_STREAM, 0);
    FAILS(connect(refused, (struct sockaddr *)&address, sizeof address), ECONNREFUSED);
    FAILS(send(refused, "x", 1, MSG_NOSIGNAL), EPIPE);
    int fresh = socket(AF_INET, SOCK_STREAM, 0);
    FAILS(recv(fresh, text, 1, 0), ENOTCONN);
    FAILS(getpeername(fresh, (struct sockaddr *)&peer, &length), ENOTCONN);
    /* One that was reset before it is accepted is accepted, and has no peer any more; what it sent before can be read. */
    length = sizeof address;
    int late = socket(AF_INET, SOCK_STREAM, 0), gone = socket(AF_INET, SOCK_STREAM, 0);
    struct linger now = {1, 0};
    address.sin_port = 0;
    CHECK(bind(late, (struct sockaddr *)&address, sizeof address) == 0 && listen(late, 5) == 0);
    CHECK(getsockname(late, (struct sockaddr *)&address, &length) == 0);
    CHECK(connect(gone, (struct sockaddr *)&address, sizeof address) == 0 && send(gone, "left", 4, 0) == 4);
    CHECK(setsockopt(gone, SOL_SOCKET, SO_LINGER, &now, sizeof now) == 0 && close(gone) == 0);
    CHECK(wait_for(late, POLLIN) & POLLIN);
    server = accept(late, (struct sockaddr *)&peer, &length);
    CHECK(server >= 0 && peer.sin_port != 0);
    CHECK(wait_for(server, POLLRDHUP) & POLLERR);
    FAILS(getpeername(server, (struct sockaddr *)&peer, &length), ENOTCONN);
    CHECK(recv(server, text, 64, 0) == 4);
    FAILS(recv(server, text, 64, 0), ECONNRESET);
    CHECK(recv(server, text, 64, 0) == 0);
    FAILS(send(server, "x", 1, MSG_NOSIGNAL), EPIPE);
    close(server), close(late);
    puts("ok tcp");
    return 0;
}
