/* Local sockets: pairs, borders, names, descriptors in messages, ends. */
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

static void pairs(void)
{
    int ends[2];
    char text[16];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    CHECK(write(ends[0], "ping", 4) == 4 && write(ends[0], "pong", 4) == 4);
    CHECK(recv(ends[1], text, 16, MSG_PEEK) == 8);
    CHECK(read(ends[1], text, 16) == 8 && memcmp(text, "pingpong", 8) == 0);
    FAILS(recv(ends[1], text, 1, MSG_DONTWAIT), EAGAIN);
    CHECK(shutdown(ends[1], SHUT_WR) == 0);
    CHECK(read(ends[0], text, 1) == 0);
    FAILS(send(ends[1], "x", 1, MSG_NOSIGNAL), EPIPE);
    CHECK(write(ends[0], "still", 5) == 5);
    CHECK(read(ends[1], text, 16) == 5);
    close(ends[1]);
    FAILS(send(ends[0], "x", 1, MSG_NOSIGNAL), EPIPE);
    struct pollfd entry = {ends[0], POLLIN, 0};
    CHECK(poll(&entry, 1, 0) == 1 && (entry.revents & (POLLIN | POLLHUP)) == (POLLIN | POLLHUP));
    close(ends[0]);
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
    CHECK(write(ends[0], "first", 5) == 5 && write(ends[0], "second", 6) == 6);
    CHECK(read(ends[1], text, 3) == 3 && read(ends[1], text, 16) == 6);
    close(ends[0]), close(ends[1]);
}

/* The error that waits at a socket. */
static int pending(int socket)
{
    int error = -1;
    socklen_t room = sizeof error;
    CHECK(getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &room) == 0);
    return error;
}

/* A peer that goes and leaves something unread resets the connection: told once, after what it sent on a stream, before it on messages. */
static void resets(void)
{
    int ends[2];
    char text[16];
    for (int round = 0; round < 2; round++) {
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
        CHECK(write(ends[0], "unread", 6) == 6 && write(ends[1], "last", 4) == 4 && close(ends[1]) == 0);
        struct pollfd entry = {ends[0], POLLIN | POLLRDHUP, 0};
        CHECK(poll(&entry, 1, 0) == 1 && entry.revents == (POLLIN | POLLERR | POLLHUP | POLLRDHUP));
        if (round) CHECK(pending(ends[0]) == ECONNRESET && pending(ends[0]) == 0);
        FAILS(send(ends[0], "x", 1, MSG_NOSIGNAL), EPIPE);
        CHECK(read(ends[0], text, 16) == 4);
        if (!round) FAILS(read(ends[0], text, 16), ECONNRESET);
        CHECK(read(ends[0], text, 16) == 0);
        CHECK(poll(&entry, 1, 0) == 1 && entry.revents == (POLLIN | POLLHUP | POLLRDHUP));
        close(ends[0]);
    }
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
    CHECK(write(ends[0], "unread", 6) == 6 && write(ends[1], "last", 4) == 4 && close(ends[1]) == 0);
    FAILS(read(ends[0], text, 16), ECONNRESET);
    CHECK(read(ends[0], text, 16) == 4 && read(ends[0], text, 16) == 0);
    close(ends[0]);
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
    CHECK(write(ends[0], "unread", 6) == 6 && close(ends[1]) == 0);
    FAILS(send(ends[0], "x", 1, MSG_NOSIGNAL), ECONNRESET);
    FAILS(send(ends[0], "x", 1, MSG_NOSIGNAL), EPIPE);
    close(ends[0]);
}

static socklen_t name_address(struct sockaddr_un *address, const char *name, size_t bytes)
{
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path, name, bytes);
    return offsetof(struct sockaddr_un, sun_path) + bytes;
}

/* Connections that nobody has accepted are reset when their listener closes. */
static void a_backlog_is_reset(void)
{
    struct sockaddr_un address;
    char name[] = "\0local-sockets-backlog";
    socklen_t length = name_address(&address, name, sizeof name);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0), idle = socket(AF_UNIX, SOCK_STREAM, 0), sender = socket(AF_UNIX, SOCK_STREAM, 0);
    char text[8];
    CHECK(bind(listener, (struct sockaddr *)&address, length) == 0 && listen(listener, 5) == 0);
    CHECK(connect(idle, (struct sockaddr *)&address, length) == 0 && connect(sender, (struct sockaddr *)&address, length) == 0);
    CHECK(write(sender, "hello", 5) == 5 && close(listener) == 0);
    struct pollfd entry = {idle, POLLIN | POLLRDHUP, 0};
    CHECK(poll(&entry, 1, 0) == 1 && entry.revents == (POLLIN | POLLERR | POLLHUP | POLLRDHUP));
    FAILS(read(idle, text, 8), ECONNRESET);
    CHECK(read(idle, text, 8) == 0 && pending(idle) == 0);
    FAILS(send(sender, "x", 1, MSG_NOSIGNAL), EPIPE);
    CHECK(pending(sender) == ECONNRESET && read(sender, text, 8) == 0);
    close(idle), close(sender);
}

static void names(int kind, const char *name, size_t bytes)
{
    struct sockaddr_un address;
    socklen_t length = name_address(&address, name, bytes);
    struct sockaddr *raw = (struct sockaddr *)&address;
    int listener = socket(AF_UNIX, kind | SOCK_NONBLOCK, 0), client = socket(AF_UNIX, kind, 0);
    CHECK(bind(listener, raw, length) == 0);
    FAILS(connect(client, raw, length), ECONNREFUSED);
    CHECK(listen(listener, 5) == 0);
    FAILS(accept(listener, NULL, NULL), EAGAIN);
    CHECK(connect(client, raw, length) == 0);
    int accepted = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    CHECK(accepted >= 0 && fcntl(accepted, F_GETFD) == FD_CLOEXEC);
    char text[8];
    CHECK(write(client, "hello", 5) == 5 && read(accepted, text, 8) == 5);
    /* A message is read whole or cut; a stream gives what is asked for. */
    CHECK(write(client, "abcd", 4) == 4 && write(client, "ef", 2) == 2 && read(accepted, text, 3) == 3);
    CHECK(read(accepted, text, 8) == (kind == SOCK_STREAM ? 3 : 2));
    struct ucred peer;
    socklen_t room = sizeof peer;
    CHECK(getsockopt(accepted, SOL_SOCKET, SO_PEERCRED, &peer, &room) == 0 && peer.pid == getpid());
    int second = socket(AF_UNIX, kind, 0), other = socket(AF_UNIX, kind == SOCK_STREAM ? SOCK_SEQPACKET : SOCK_STREAM, 0);
    /* Abstract names stand apart by kind. */
    FAILS(connect(other, raw, length), *name ? EPROTOTYPE : ECONNREFUSED);
    close(other);
    FAILS(bind(second, raw, length), EADDRINUSE);
    FAILS(connect(client, raw, length), EISCONN);
    close(listener);
    FAILS(connect(second, raw, length), ECONNREFUSED);
    close(client), close(accepted), close(second);
}

static void descriptors(void)
{
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    if (fork() == 0) {
        make_file("passed", "contents");
        int file = open("passed", O_RDONLY);
        union { char room[CMSG_SPACE(sizeof file)]; struct cmsghdr align; } control = {{0}};
        struct iovec piece = {"!", 1};
        struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};
        struct cmsghdr *entry = CMSG_FIRSTHDR(&message);
        entry->cmsg_level = SOL_SOCKET, entry->cmsg_type = SCM_RIGHTS, entry->cmsg_len = CMSG_LEN(sizeof file);
        memcpy(CMSG_DATA(entry), &file, sizeof file);
        _exit(sendmsg(ends[0], &message, 0) == 1 ? 0 : 1);
    }
    char byte, text[16];
    union { char room[64]; struct cmsghdr align; } control;
    struct iovec piece = {&byte, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};
    CHECK(recvmsg(ends[1], &message, MSG_CMSG_CLOEXEC) == 1 && byte == '!');
    struct cmsghdr *entry = CMSG_FIRSTHDR(&message);
    CHECK(entry != NULL && entry->cmsg_type == SCM_RIGHTS && entry->cmsg_len == CMSG_LEN(sizeof(int)));
    int file;
    memcpy(&file, CMSG_DATA(entry), sizeof file);
    CHECK(read(file, text, 16) == 8 && memcmp(text, "contents", 8) == 0);
    CHECK(fcntl(file, F_GETFD) == FD_CLOEXEC);
    int status;
    CHECK(wait(&status) > 0 && status == 0);
    close(file), close(ends[0]), close(ends[1]);
}

static pid_t connect_in_child(const struct sockaddr *raw, socklen_t length, int error_wanted, int listener)
{
    pid_t child = fork();
    if (child == 0) {
        close(listener);
        int client = socket(AF_UNIX, SOCK_STREAM, 0);
        int done = connect(client, raw, length);
        _exit(error_wanted ? !(done < 0 && errno == error_wanted) : done != 0);
    }
    usleep(50000);
    return child;
}

/* A connection to a full backlog waits for its turn. */
static void full_backlog(void)
{
    struct sockaddr_un address;
    socklen_t length = name_address(&address, "\0backlog", 8);
    struct sockaddr *raw = (struct sockaddr *)&address;
    int listener = socket(AF_UNIX, SOCK_STREAM, 0), first = socket(AF_UNIX, SOCK_STREAM, 0), status = 1;
    CHECK(bind(listener, raw, length) == 0 && listen(listener, 0) == 0);
    CHECK(connect(first, raw, length) == 0);
    int second = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0), third = socket(AF_UNIX, SOCK_STREAM, 0);
    FAILS(connect(second, raw, length), EAGAIN);
    struct timeval patience = {0, 30000};
    CHECK(setsockopt(third, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) == 0);
    FAILS(connect(third, raw, length), EAGAIN);
    pid_t child = connect_in_child(raw, length, 0, listener);
    CHECK(waitpid(child, &status, WNOHANG) == 0);
    CHECK(accept(listener, NULL, NULL) >= 0);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    child = connect_in_child(raw, length, ECONNREFUSED, listener);
    CHECK(waitpid(child, &status, WNOHANG) == 0);
    close(listener);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    close(first), close(second), close(third);
}

int main(void)
{
    full_backlog();
    char hidden[32];
    enter_directory();
    pairs();
    resets();
    a_backlog_is_reset();
    names(SOCK_STREAM, "socket", 7);
    hidden[0] = 0;
    sprintf(hidden + 1, "gyre-%d", getpid());
    names(SOCK_STREAM, hidden, strlen(hidden + 1) + 1);
    CHECK(unlink("socket") == 0);
    names(SOCK_SEQPACKET, "socket", 7);
    names(SOCK_SEQPACKET, hidden, strlen(hidden + 1) + 1);
    descriptors();
    FAILS(socket(AF_UNIX, 99, 0), EINVAL);
    puts("ok local_sockets");
    return 0;
}
