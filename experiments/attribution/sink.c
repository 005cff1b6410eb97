/* Reads UDP datagrams at port 9000 and drops them: the program of a tenant that receives packets. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int main(void)
{
    struct sockaddr_in own = { .sin_family = AF_INET, .sin_port = htons(9000), .sin_addr.s_addr = htonl(INADDR_ANY) };
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    char bytes[2048];

    if (fd < 0 || bind(fd, (struct sockaddr *)&own, sizeof own) < 0) {
        perror("sink");
        return 1;
    }
    for (;;) {
        if (recv(fd, bytes, sizeof bytes, 0) < 0) {
            perror("sink: recv");
            return 1;
        }
    }
}
