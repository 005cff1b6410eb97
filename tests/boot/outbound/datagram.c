/* datagram ADDRESS PORT TEXT: sends a datagram and prints the answer, or the error. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

int main(int count, char **words)
{
    if (count != 4)
        return 2;
    struct sockaddr_in to = {AF_INET, htons(atoi(words[2])), {inet_addr(words[1])}};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct timeval patience = {120};
    char answer[2048];
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ssize_t bytes = connect(fd, (struct sockaddr *)&to, sizeof to);
    if (bytes == 0)
        bytes = send(fd, words[3], strlen(words[3]), 0);
    if (bytes >= 0)
        bytes = recv(fd, answer, sizeof answer, 0);
    if (bytes < 0)
        printf("%s\n", strerror(errno));
    else
        printf("answer %.*s\n", (int)bytes, answer);
    return 0;
}
