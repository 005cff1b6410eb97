/* Has work of the kernel for this process fail (kernels with the feature fault-injection only): fail KIND RESOURCE AFTER, positions as in
 * contract/src/native.rs. It then does a little of everything, so that the step comes, and says "lived" if it does not. With one argument, a
 * position in ATTACKS, it has the whole kernel fail or attack others. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
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

/* Datagrams to itself. */
static void on_datagrams(void) {
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof own;
    char text[32] = "datagram";
    int socket_ = socket(AF_INET, SOCK_DGRAM, 0);
    if (socket_ >= 0 && bind(socket_, (struct sockaddr *)&own, sizeof own) == 0 &&
        getsockname(socket_, (struct sockaddr *)&own, &bytes) == 0 &&
        sendto(socket_, text, sizeof text, 0, (struct sockaddr *)&own, sizeof own) > 0)
        recv(socket_, text, sizeof text, MSG_DONTWAIT);
    close(socket_);
}

int main(int count, char **words) {
    int ends[2];
    pthread_t other;
    if (count == 2) {
        printf("attack: %s\n", syscall(ATTACK, atol(words[1])) == 0 ? "lived" : strerror(errno));
        return 0;
    }
    if (count != 4 || pipe(ends) != 0 || pthread_create(&other, 0, second, 0) != 0)
        return 2;
    if (syscall(FAIL, atol(words[1]), atol(words[2]), atol(words[3])) != 0) {
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
        on_datagrams();
    }
    /* Work without an end is ended a second after its beginning; it may be that of the second thread. */
    sleep(20);
    puts("lived");
    return 0;
}
