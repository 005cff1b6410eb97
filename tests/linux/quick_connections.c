/* Many short TCP connections over loopback, one after the other: each is accepted in its turn, and each end hears of the other's end. */
#include "check.h"
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

enum { CONNECTIONS = 2000 };

static struct sockaddr_in address;
static int listener;

static void hear_the_end(int fd, int number, const char *side)
{
    char byte;
    long count = recv(fd, &byte, 1, 0);
    if (count != 0) {
        printf("FAILED connection %d, %s: recv answered %ld, errno %d\n", number, side, count, errno);
        exit(1);
    }
}

static void *serve(void *unused)
{
    for (int number = 0; number < CONNECTIONS; number++) {
        int fd = accept(listener, NULL, NULL);
        CHECK(fd >= 0);
        if (number % 2)
            hear_the_end(fd, number, "server");
        close(fd);
    }
    return NULL;
}

int main(void)
{
    socklen_t length = sizeof address;
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(listener >= 0);
    CHECK(bind(listener, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(listen(listener, 64) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&address, &length) == 0);

    pthread_t server;
    CHECK(pthread_create(&server, NULL, serve, NULL) == 0);
    for (int number = 0; number < CONNECTIONS; number++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        CHECK(fd >= 0);
        CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
        if (number % 2 == 0)
            hear_the_end(fd, number, "client");
        close(fd);
    }
    CHECK(pthread_join(server, NULL) == 0);
    puts("ok quick_connections");
    return 0;
}
