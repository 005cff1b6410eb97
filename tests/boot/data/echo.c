/* Says that it has its port, then sends each datagram back to whom it came from: for the port forward of tests/boot/data. */
#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>

int main(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(5353)};
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    if (s < 0 || bind(s, (struct sockaddr *)&at, sizeof at) != 0)
        return 1;
    puts("bound");
    fflush(stdout);
    for (;;) {
        char bytes[2048];
        struct sockaddr_in from;
        socklen_t length = sizeof from;
        ssize_t count = recvfrom(s, bytes, sizeof bytes, 0, (struct sockaddr *)&from, &length);
        if (count < 0 || sendto(s, bytes, count, 0, (struct sockaddr *)&from, length) != count)
            return 2;
    }
}
