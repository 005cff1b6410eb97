/* Has work of the kernel for this process fail (kernels with the feature fault-injection only): fail KIND RESOURCE AFTER [agent], the kind's
 * position in contract/src/native.rs and the resource's name; with the last word it is work for the machine's agent. It then does a little of
 * everything, so that the step comes, and says "lived" if it does not. With one argument, a
 * position in ATTACKS, it has the whole kernel fail or attack others. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <netinet/ip_icmp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FAIL 0x10f0
#define ATTACK 0x10f1

static void *second(void *none) {
    for (;;)
        pause();
    return none;
}

static void on_files(const char *folder) {
    char path[64], text[5000];
    memset(text, 'x', sizeof text);
    snprintf(path, sizeof path, "%s/fail-%d", folder, getpid());
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file >= 0) {
        if (write(file, text, sizeof text) > 0 && lseek(file, 0, SEEK_SET) == 0 && read(file, text, sizeof text) < 0)
            perror("read");
        fsync(file);
        close(file);
    }
    unlink(path);
}

/* Any port: work that failed may keep the one that it had. */
static void bound(int socket_, struct sockaddr_in *own) {
    socklen_t bytes = sizeof *own;
    own->sin_family = AF_INET;
    own->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (socket_ < 0 || bind(socket_, (struct sockaddr *)own, sizeof *own) != 0 || getsockname(socket_, (struct sockaddr *)own, &bytes) != 0) {
        printf("no port: %s\n", strerror(errno));
        exit(5);
    }
}

/* Datagrams to itself. */
static void on_datagrams(void) {
    struct sockaddr_in own = {0};
    char text[32] = "datagram";
    int socket_ = socket(AF_INET, SOCK_DGRAM, 0);
    bound(socket_, &own);
    if (sendto(socket_, text, sizeof text, 0, (struct sockaddr *)&own, sizeof own) > 0)
        recv(socket_, text, sizeof text, MSG_DONTWAIT);
    close(socket_);
}

/* An echo of itself. */
static void on_echoes(void) {
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct icmphdr echo = {.type = ICMP_ECHO};
    struct timeval moment = {0, 100000};
    int socket_ = socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP);
    if (socket_ < 0)
        return;
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &moment, sizeof moment);
    if (sendto(socket_, &echo, sizeof echo, 0, (struct sockaddr *)&own, sizeof own) > 0)
        recv(socket_, &echo, sizeof echo, 0);
    close(socket_);
}

/* A connection to itself. */
static void on_connections(void) {
    struct sockaddr_in own = {0};
    struct timeval moment = {1, 0};
    int yes = 1;
    char text[2000] = "segment";
    int listener = socket(AF_INET, SOCK_STREAM, 0), there = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &moment, sizeof moment);
    setsockopt(there, SOL_SOCKET, SO_RCVTIMEO, &moment, sizeof moment);
    bound(listener, &own);
    if (listen(listener, 4) == 0 && connect(there, (struct sockaddr *)&own, sizeof own) == 0) {
        int here = accept(listener, 0, 0);
        if (send(here, text, sizeof text, MSG_NOSIGNAL) > 0)
            recv(there, text, sizeof text, 0);
        close(here);
    }
    close(there);
    close(listener);
}

/* Work that is waited for later. */
static void on_work_for_later(const char *folder) {
    char path[64], text[4096] = "later";
    aio_context_t context = 0;
    struct io_event event;
    struct timespec moment = {1, 0};
    snprintf(path, sizeof path, "%s/later-%d", folder, getpid());
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    struct iocb wish = {.aio_lio_opcode = IOCB_CMD_PWRITE, .aio_fildes = file, .aio_buf = (unsigned long)text, .aio_nbytes = sizeof text};
    struct iocb *wishes[] = {&wish};
    if (file >= 0 && syscall(SYS_io_setup, 1, &context) == 0 && syscall(SYS_io_submit, context, 1, wishes) == 1)
        syscall(SYS_io_getevents, context, 1, 1, &event, &moment);
    syscall(SYS_io_destroy, context);
    close(file);
    unlink(path);
}

int main(int count, char **words) {
    int ends[2];
    pthread_t other;
    if (count == 2) {
        printf("attack: %s\n", syscall(ATTACK, atol(words[1])) == 0 ? "lived" : strerror(errno));
        return 0;
    }
    if (count == 5) {
        printf("fail: %s\n", syscall(FAIL, atol(words[1]), words[2], strlen(words[2]), atol(words[3]), 1) == 0 ? "asked" : strerror(errno));
        return 0;
    }
    if (count != 4 || pipe(ends) != 0 || pthread_create(&other, 0, second, 0) != 0)
        return 2;
    if (syscall(FAIL, atol(words[1]), words[2], strlen(words[2]), atol(words[3]), 0) != 0) {
        printf("fail: %s\n", strerror(errno));
        return 3;
    }
    for (int round = 0; round < 20; round++) {
        struct timespec moment = {0, 1000000};
        char byte = 1;
        nanosleep(&moment, 0);
        if (write(ends[1], &byte, 1) != 1 || read(ends[0], &byte, 1) != 1)
            return 4;
        on_files("/root");
        on_files("/tmp");
        on_work_for_later("/root");
        on_datagrams();
        on_echoes();
        on_connections();
    }
    /* Work without an end is ended a second after its beginning; it may be that of the second thread. */
    sleep(20);
    puts("lived");
    return 0;
}
