/* Answers ARP, ping and UDP echoes at an address, by a network card that it reads and writes as a file: a frame of Ethernet with each call. It is an
 * unmodified program for a cell:
 *     gyre-cell --card /dev/net0 --card-device 1 -- cell_echo /dev/net0 192.168.77.2
 * UDP to port 7 comes back; `quit` to port 9 ends it. It says the card's address first. A tap device of Linux serves as well. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#define FRAME_MAX 1514
#define ECHO 7
#define END 9

struct ethernet { uint8_t to[6], from[6]; uint16_t type; } __attribute__((packed));
struct arp {
    uint16_t hardware, protocol;
    uint8_t hardware_bytes, protocol_bytes;
    uint16_t operation;
    uint8_t from_mac[6], from[4], to_mac[6], to[4];
} __attribute__((packed));
struct ip {
    uint8_t version, service;
    uint16_t bytes, number, fragment;
    uint8_t hops, protocol;
    uint16_t sum;
    uint8_t from[4], to[4];
} __attribute__((packed));
struct icmp { uint8_t type, code; uint16_t sum; } __attribute__((packed));
struct udp { uint16_t from, to, bytes, sum; } __attribute__((packed));

static uint8_t own_mac[6], own[4];
static union { uint8_t bytes[2048]; struct ethernet head; } frame;

static void fail(const char *what) {
    printf("%s: %s\n", what, strerror(errno));
    exit(1);
}

static uint16_t sum_of(const void *start, size_t bytes) {
    const uint8_t *at = start;
    uint32_t sum = 0;
    for (size_t i = 0; i < bytes; i++) sum += i % 2 ? at[i] : at[i] << 8;
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    return htons(~sum);
}

static void turn(uint8_t *a, uint8_t *b, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        uint8_t kept = a[i];
        a[i] = b[i];
        b[i] = kept;
    }
}

/* Sends the frame back to whom it came from. */
static void answer(int card, size_t bytes) {
    memcpy(frame.head.to, frame.head.from, 6);
    memcpy(frame.head.from, own_mac, 6);
    /* In three parts, of which one is empty: the card takes them as one frame. */
    size_t head = sizeof frame.head;
    struct iovec parts[] = {{&frame, head}, {NULL, 0}, {frame.bytes + head, bytes - head}};
    if (writev(card, parts, 3) != (ssize_t)bytes) fail("writev");
}

static void on_arp(int card, size_t bytes) {
    struct arp *arp = (void *)(&frame.head + 1);
    if (bytes < sizeof frame.head + sizeof *arp || arp->operation != htons(1) || memcmp(arp->to, own, 4)) return;
    arp->operation = htons(2);
    memcpy(arp->to_mac, arp->from_mac, 6);
    memcpy(arp->from_mac, own_mac, 6);
    turn(arp->from, arp->to, 4);
    answer(card, bytes);
}

/* Answers 1 if it is to end. */
static int on_ip(int card, size_t bytes) {
    struct ip *ip = (void *)(&frame.head + 1);
    size_t room = bytes - sizeof frame.head;
    if (room < sizeof *ip || ip->version != 0x45 || memcmp(ip->to, own, 4)) return 0;
    size_t length = ntohs(ip->bytes);
    if (length < sizeof *ip || length > room) return 0;
    struct icmp *icmp = (void *)(ip + 1);
    struct udp *udp = (void *)(ip + 1);
    size_t rest = length - sizeof *ip;
    if (ip->protocol == 1 && rest >= 8 && icmp->type == 8) {
        icmp->type = icmp->sum = 0;
        icmp->sum = sum_of(icmp, rest);
    } else if (ip->protocol == 17 && rest >= sizeof *udp && udp->to == htons(ECHO)) {
        uint16_t port = udp->from;
        udp->from = udp->to;
        udp->to = port;
        udp->sum = 0;
    } else {
        return ip->protocol == 17 && rest >= sizeof *udp + 4 && udp->to == htons(END) && !memcmp(udp + 1, "quit", 4);
    }
    turn(ip->from, ip->to, 4);
    ip->sum = 0;
    ip->sum = sum_of(ip, sizeof *ip);
    answer(card, sizeof frame.head + length);
    return 0;
}

/* A wrong request is refused, and loses nothing. */
static void refusals(int card, const char *path) {
    errno = 0;
    if (write(card, &frame, 13) != -1 || errno != EINVAL) fail("a frame that is too short");
    if (write(card, &frame, FRAME_MAX + 1) != -1 || errno != EINVAL) fail("a frame that is too long");
    if (write(card, (void *)8, 60) != -1 || errno != EFAULT) fail("a wild address");
    struct iovec long_parts[] = {{&frame, 1000}, {&frame, FRAME_MAX - 999}};
    if (writev(card, long_parts, 2) != -1 || errno != EINVAL) fail("a frame that is too long in two parts");
    if (readv(card, long_parts, 1025) != -1 || errno != EINVAL) fail("too many parts");
    if (writev(card, (void *)8, 2) != -1 || errno != EFAULT) fail("wild parts");
    if (lseek(card, 0, SEEK_SET) != -1 || errno != EINVAL) fail("a position");
    int other = open(path, O_RDWR | O_NONBLOCK);
    if (other < 0) fail("a second opening");
    if (read(other, &frame, sizeof frame) != -1 || errno != EAGAIN) fail("a read that does not wait");
    struct pollfd both[] = {{card, POLLIN, -1}, {-1, POLLIN, -1}}, out = {other, POLLIN | POLLOUT, 0};
    if (poll(both, 2, 30) != 0 || both[0].revents || both[1].revents) fail("poll without a frame");
    if (poll(&out, 1, -1) != 1 || out.revents != POLLOUT) fail("poll for room");
    if (close(other) != 0) fail("close");
}

int main(int count, char **arguments) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (count != 3 || inet_pton(AF_INET, arguments[2], own) != 1) return 2;
    int card = open(arguments[1], O_RDWR);
    if (card < 0) fail(arguments[1]);
    struct ifreq request = {0};
    if (ioctl(card, SIOCGIFHWADDR, &request) != 0) fail("SIOCGIFHWADDR");
    memcpy(own_mac, request.ifr_hwaddr.sa_data, 6);
    if (ioctl(card, SIOCGIFMTU, &request) != 0 || request.ifr_mtu != 1500) fail("SIOCGIFMTU");
    refusals(card, arguments[1]);
    for (int i = 0; i < 6; i++) printf("%02x%s", own_mac[i], i < 5 ? ":" : "\n");
    for (long frames = 0;; frames++) {
        struct pollfd waits = {card, POLLIN, 0};
        if (poll(&waits, 1, -1) != 1 || waits.revents != POLLIN) fail("poll");
        struct iovec parts[] = {{&frame, 14}, {frame.bytes + 14, 20}, {frame.bytes + 34, sizeof frame - 34}};
        ssize_t bytes = readv(card, parts, 3);
        if (bytes < 0) fail("readv");
        if (bytes < (ssize_t)sizeof frame.head) continue;
        if (frame.head.type == htons(0x0806)) on_arp(card, bytes);
        if (frame.head.type == htons(0x0800) && on_ip(card, bytes)) {
            printf("ok cell_echo: %ld frames\n", frames);
            return 0;
        }
    }
}
