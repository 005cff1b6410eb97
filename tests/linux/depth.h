/* Chains and rings of descriptors, for the programs that make deep ones. */
#ifndef DEPTH_H
#define DEPTH_H
#include "check.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

static inline int list_of(void) {
    int list = epoll_create1(0);
    CHECK(list >= 0);
    return list;
}

/* Adds a descriptor to a list; answers 0 or the error. */
static inline int add_to(int list, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    return epoll_ctl(list, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : errno;
}

/* Sends a descriptor over a local socket; answers 0 or the error. */
static inline int send_fd(int over, int fd) {
    char letter = 'x', room[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec piece = {&letter, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    return sendmsg(over, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == 1 ? 0 : errno;
}

/* Receives a descriptor from a local socket. */
static inline int receive_fd(int from) {
    char letter, room[CMSG_SPACE(sizeof(int))];
    struct iovec piece = {&letter, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    CHECK(recvmsg(from, &message, 0) == 1 && CMSG_FIRSTHDR(&message) != NULL);
    int fd;
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

/* Makes a chain of sockets, each sent over the next one, around `inner`; answers the last, which alone has a descriptor. */
static inline int chain_of_sockets(int length, int inner) {
    int held = inner;
    for (int at = 0; at < length; at++) {
        int pair[2];
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
        CHECK(send_fd(pair[0], held) == 0);
        CHECK(close(held) == 0 && close(pair[0]) == 0);
        held = pair[1];
    }
    return held;
}

/* As many descriptors as the hard limit gives. */
static inline void raise_limit(rlim_t wanted) {
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

/* Waits until the other ends of a pipe are closed, `ms` at most; without an end if it is -1. */
static inline int hangs_up(int fd, int ms) {
    struct pollfd entry = {.fd = fd, .events = 0};
    return poll(&entry, 1, ms) == 1 && (entry.revents & POLLHUP) != 0;
}
#endif
