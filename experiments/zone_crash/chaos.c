/* A server whose kernel loses its mind when it is asked to: the path /N of a request is a position in ATTACKS of contract/src/native.rs, and
 * /ready is answered. It computes meanwhile, so that the host is as busy in calm as around a crash. Kernels with the feature fault-injection only. */
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ATTACK 0x10f1

static void *compute(void *sum) {
    for (;;)
        ++*(volatile unsigned long *)sum;
    return sum;
}

int main(void) {
    static unsigned long sum;
    pthread_t thread;
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(80)};
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&to, sizeof to) != 0 || listen(listener, 16) != 0) {
        perror("chaos");
        return 1;
    }
    pthread_create(&thread, 0, compute, &sum);
    for (;;) {
        static const char yes[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        char text[256] = {0};
        int client = accept(listener, 0, 0);
        if (client < 0)
            continue;
        if (read(client, text, sizeof text - 1) > 5 && strncmp(text, "GET /", 5) == 0) {
            if (write(client, yes, sizeof yes - 1) < 0)
                perror("chaos");
            if (text[5] >= '0' && text[5] <= '9') {
                /* The answer is to arrive before the end. */
                usleep(20000);
                syscall(ATTACK, atol(text + 5));
            }
        }
        close(client);
    }
}
