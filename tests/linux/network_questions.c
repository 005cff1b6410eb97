/* Asks as programs do about their network: netlink, ioctl, /proc/net, ping sockets. */
#include "check.h"
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static int netlink(int protocol)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
    CHECK(fd >= 0);
    struct sockaddr_nl own = {AF_NETLINK};
    CHECK(bind(fd, (struct sockaddr *)&own, sizeof own) == 0);
    socklen_t length = sizeof own;
    CHECK(getsockname(fd, (struct sockaddr *)&own, &length) == 0 && length == sizeof own && own.nl_pid != 0);
    return fd;
}

static void ask(int fd, int type, int flags, const void *body, size_t bytes)
{
    char request[512];
    memset(request, 0, sizeof request);
    struct nlmsghdr *header = (void *)request;
    header->nlmsg_len = NLMSG_LENGTH(bytes);
    header->nlmsg_type = type;
    header->nlmsg_flags = NLM_F_REQUEST | flags;
    header->nlmsg_seq = 77;
    memcpy(NLMSG_DATA(header), body, bytes);
    struct sockaddr_nl kernel = {AF_NETLINK};
    CHECK(sendto(fd, request, header->nlmsg_len, 0, (struct sockaddr *)&kernel, sizeof kernel) == (ssize_t)header->nlmsg_len);
}

/* Reads a whole list; calls `each` for each entry and answers how many there were. */
static int entries(int fd, int type, void (*each)(struct nlmsghdr *))
{
    int count = 0;
    for (;;) {
        static char buffer[32768];
        struct sockaddr_nl from;
        socklen_t length = sizeof from;
        ssize_t bytes = recvfrom(fd, buffer, sizeof buffer, 0, (struct sockaddr *)&from, &length);
        CHECK(bytes > 0 && length == sizeof from && from.nl_pid == 0);
        for (struct nlmsghdr *one = (void *)buffer; NLMSG_OK(one, bytes); one = NLMSG_NEXT(one, bytes)) {
            CHECK(one->nlmsg_seq == 77);
            if (one->nlmsg_type == NLMSG_DONE)
                return count;
            CHECK(one->nlmsg_type == type && one->nlmsg_flags & NLM_F_MULTI);
            count++;
            if (each)
                each(one);
        }
    }
}

/* Reads the answer to a request that fails. */
static int failure(int fd)
{
    char buffer[4096];
    CHECK(recv(fd, buffer, sizeof buffer, 0) >= (ssize_t)NLMSG_LENGTH(sizeof(struct nlmsgerr)));
    struct nlmsghdr *header = (void *)buffer;
    CHECK(header->nlmsg_type == NLMSG_ERROR && header->nlmsg_seq == 77);
    return ((struct nlmsgerr *)NLMSG_DATA(header))->error;
}

static int loopbacks, seen_loopback_address;

static void see_link(struct nlmsghdr *one)
{
    struct ifinfomsg *link = NLMSG_DATA(one);
    int left = IFLA_PAYLOAD(one), named = 0;
    for (struct rtattr *a = IFLA_RTA(link); RTA_OK(a, left); a = RTA_NEXT(a, left))
        if (a->rta_type == IFLA_IFNAME)
            named = strcmp(RTA_DATA(a), "lo") == 0;
    CHECK(left == 0);
    if (named)
    {
        loopbacks++;
        CHECK(link->ifi_index == 1 && link->ifi_flags & IFF_LOOPBACK && link->ifi_type == 772);
    }
}

static void see_address(struct nlmsghdr *one)
{
    struct ifaddrmsg *address = NLMSG_DATA(one);
    int left = IFA_PAYLOAD(one);
    for (struct rtattr *a = IFA_RTA(address); RTA_OK(a, left); a = RTA_NEXT(a, left))
        if (a->rta_type == IFA_LOCAL && *(uint32_t *)RTA_DATA(a) == htonl(INADDR_LOOPBACK))
            seen_loopback_address = address->ifa_prefixlen;
}

static void routes(void)
{
    int fd = netlink(NETLINK_ROUTE);
    struct ifinfomsg link = {AF_UNSPEC};
    ask(fd, RTM_GETLINK, NLM_F_DUMP, &link, sizeof link);
    CHECK(entries(fd, RTM_NEWLINK, see_link) >= 1 && loopbacks == 1);
    struct ifaddrmsg address = {AF_INET};
    ask(fd, RTM_GETADDR, NLM_F_DUMP, &address, sizeof address);
    CHECK(entries(fd, RTM_NEWADDR, see_address) >= 1 && seen_loopback_address == 8);
    struct rtmsg route = {AF_INET};
    ask(fd, RTM_GETROUTE, NLM_F_DUMP, &route, sizeof route);
    CHECK(entries(fd, RTM_NEWROUTE, NULL) >= 1);
    struct ndmsg neighbour = {AF_INET};
    ask(fd, RTM_GETNEIGH, NLM_F_DUMP, &neighbour, sizeof neighbour);
    CHECK(entries(fd, RTM_NEWNEIGH, NULL) >= 0);
    /* one interface, by number and by a number that there is not */
    link.ifi_index = 1;
    ask(fd, RTM_GETLINK, 0, &link, sizeof link);
    char buffer[8192];
    ssize_t bytes = recv(fd, buffer, sizeof buffer, 0);
    struct nlmsghdr *one = (void *)buffer;
    CHECK(bytes > 0 && one->nlmsg_type == RTM_NEWLINK && !(one->nlmsg_flags & NLM_F_MULTI));
    see_link(one);
    CHECK(loopbacks == 2);
    link.ifi_index = 4711;
    ask(fd, RTM_GETLINK, 0, &link, sizeof link);
    CHECK(failure(fd) == -ENODEV);
    close(fd);
}

static void bad_requests(void)
{
    int fd = netlink(NETLINK_ROUTE);
    /* without a family it is no question */
    char nothing[16];
    ask(fd, RTM_GETADDR, 0, "", 0);
    FAILS(recv(fd, nothing, sizeof nothing, MSG_DONTWAIT), EAGAIN);
    ask(fd, 4000, 0, "\0\0\0", 4);
    CHECK(failure(fd) == -EOPNOTSUPP);
    /* lengths that lie: nothing is answered, nothing breaks */
    struct nlmsghdr lie = {5, RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, 1, 0};
    send(fd, &lie, sizeof lie, 0);
    lie.nlmsg_len = 0xffffffff;
    send(fd, &lie, sizeof lie, 0);
    send(fd, &lie, 3, 0);
    char buffer[64];
    FAILS(recv(fd, buffer, sizeof buffer, MSG_DONTWAIT), EAGAIN);
    /* a short buffer cuts the answer and says so */
    struct ifinfomsg link = {AF_UNSPEC};
    ask(fd, RTM_GETLINK, NLM_F_DUMP, &link, sizeof link);
    ssize_t whole = recv(fd, buffer, 16, MSG_PEEK | MSG_TRUNC);
    CHECK(whole > 64);
    struct iovec piece = {buffer, 16};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    CHECK(recvmsg(fd, &message, 0) == 16 && message.msg_flags & MSG_TRUNC);
    close(fd);
    FAILS(socket(AF_NETLINK, SOCK_STREAM, 0), ESOCKTNOSUPPORT);
    FAILS(socket(AF_NETLINK, SOCK_RAW, 33), EPROTONOSUPPORT);
}

static uint32_t wanted_inode;
static int found_state, found_port;

static void see_inet(struct nlmsghdr *one)
{
    struct inet_diag_msg *socket = NLMSG_DATA(one);
    if (socket->idiag_inode == wanted_inode)
        found_state = socket->idiag_state, found_port = ntohs(socket->id.idiag_sport);
}

static void see_unix(struct nlmsghdr *one)
{
    struct unix_diag_msg *socket = NLMSG_DATA(one);
    if (socket->udiag_ino == wanted_inode)
        found_state = socket->udiag_state;
}

static uint32_t inode_of(int fd)
{
    struct stat about;
    CHECK(fstat(fd, &about) == 0 && S_ISSOCK(about.st_mode));
    char path[64], text[64] = "";
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    CHECK(readlink(path, text, sizeof text - 1) > 0);
    snprintf(path, sizeof path, "socket:[%lu]", (unsigned long)about.st_ino);
    CHECK(strcmp(path, text) == 0);
    return about.st_ino;
}

/* Answers whether a line of a file has a text. */
static int has(const char *path, const char *text)
{
    char line[512];
    int found = 0;
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file))
        found |= strstr(line, text) != NULL;
    fclose(file);
    return found;
}

static void sockets(void)
{
    struct sockaddr_in any = {AF_INET, 0, {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof any;
    int listener = socket(AF_INET, SOCK_STREAM, 0), fd = netlink(NETLINK_SOCK_DIAG);
    CHECK(bind(listener, (struct sockaddr *)&any, sizeof any) == 0 && listen(listener, 5) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&any, &length) == 0);
    struct inet_diag_req_v2 wanted = {AF_INET, IPPROTO_TCP, 0, 0, -1};
    wanted_inode = inode_of(listener);
    ask(fd, SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, &wanted, sizeof wanted);
    CHECK(entries(fd, SOCK_DIAG_BY_FAMILY, see_inet) >= 1);
    CHECK(found_state == 10 && found_port == ntohs(any.sin_port));
    /* only those in other states */
    found_state = 0, wanted.idiag_states = 1 << 1;
    ask(fd, SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, &wanted, sizeof wanted);
    entries(fd, SOCK_DIAG_BY_FAMILY, see_inet);
    CHECK(found_state == 0);
    char line[64];
    snprintf(line, sizeof line, "0100007F:%04X 00000000:0000 0A", ntohs(any.sin_port));
    CHECK(has("/proc/net/tcp", line));
    int client = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(client, (struct sockaddr *)&any, sizeof any) == 0);
    snprintf(line, sizeof line, "0100007F:%04X 01", ntohs(any.sin_port));
    CHECK(has("/proc/net/tcp", line));
    int datagrams = socket(AF_INET, SOCK_DGRAM, 0);
    any.sin_port = 0;
    CHECK(bind(datagrams, (struct sockaddr *)&any, sizeof any) == 0);
    CHECK(getsockname(datagrams, (struct sockaddr *)&any, &length) == 0);
    snprintf(line, sizeof line, "0100007F:%04X 00000000:0000 07", ntohs(any.sin_port));
    CHECK(has("/proc/net/udp", line));
    wanted.sdiag_protocol = IPPROTO_UDP, wanted.idiag_states = -1, wanted_inode = inode_of(datagrams);
    ask(fd, SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, &wanted, sizeof wanted);
    entries(fd, SOCK_DIAG_BY_FAMILY, see_inet);
    CHECK(found_state == 7 && found_port == ntohs(any.sin_port));
    int local = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un name = {AF_UNIX, "\0network-questions"};
    CHECK(bind(local, (struct sockaddr *)&name, offsetof(struct sockaddr_un, sun_path) + 18) == 0 && listen(local, 1) == 0);
    CHECK(has("/proc/net/unix", "@network-questions"));
    struct unix_diag_req of_unix = {AF_UNIX, 0, 0, -1, 0, UDIAG_SHOW_NAME};
    wanted_inode = inode_of(local), found_state = 0;
    ask(fd, SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, &of_unix, sizeof of_unix);
    entries(fd, SOCK_DIAG_BY_FAMILY, see_unix);
    CHECK(found_state == 10);
    close(listener), close(client), close(datagrams), close(local), close(fd);
}

static void interfaces(void)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifreq wanted = {{"lo"}};
    CHECK(ioctl(fd, SIOCGIFADDR, &wanted) == 0);
    struct sockaddr_in *address = (void *)&wanted.ifr_addr;
    CHECK(address->sin_family == AF_INET && address->sin_addr.s_addr == htonl(INADDR_LOOPBACK));
    CHECK(ioctl(fd, SIOCGIFNETMASK, &wanted) == 0 && address->sin_addr.s_addr == htonl(0xff000000));
    CHECK(ioctl(fd, SIOCGIFFLAGS, &wanted) == 0 && (wanted.ifr_flags & (IFF_UP | IFF_LOOPBACK)) == (IFF_UP | IFF_LOOPBACK));
    CHECK(ioctl(fd, SIOCGIFMTU, &wanted) == 0 && wanted.ifr_mtu >= 1500);
    CHECK(ioctl(fd, SIOCGIFHWADDR, &wanted) == 0 && wanted.ifr_hwaddr.sa_family == 772);
    CHECK(ioctl(fd, SIOCGIFINDEX, &wanted) == 0 && wanted.ifr_ifindex == 1);
    memset(wanted.ifr_name, 0, IFNAMSIZ);
    CHECK(ioctl(fd, SIOCGIFNAME, &wanted) == 0 && strcmp(wanted.ifr_name, "lo") == 0);
    wanted.ifr_ifindex = 4711;
    FAILS(ioctl(fd, SIOCGIFNAME, &wanted), ENODEV);
    strcpy(wanted.ifr_name, "nosuch0");
    FAILS(ioctl(fd, SIOCGIFADDR, &wanted), ENODEV);
    FAILS(ioctl(fd, SIOCGIFADDR, NULL), EFAULT);
    struct ifconf all = {0};
    CHECK(ioctl(fd, SIOCGIFCONF, &all) == 0 && all.ifc_len >= (int)sizeof wanted);
    char room[4096];
    all.ifc_len = sizeof room, all.ifc_buf = room;
    CHECK(ioctl(fd, SIOCGIFCONF, &all) == 0 && strcmp(all.ifc_req[0].ifr_name, "lo") == 0);
    all.ifc_len = 10;
    CHECK(ioctl(fd, SIOCGIFCONF, &all) == 0 && all.ifc_len == 0);
    close(fd);
    struct if_nameindex *names = if_nameindex();
    CHECK(names != NULL && names[0].if_index == 1 && strcmp(names[0].if_name, "lo") == 0);
    if_freenameindex(names);
    struct ifaddrs *list;
    int found = 0;
    CHECK(getifaddrs(&list) == 0);
    for (struct ifaddrs *one = list; one; one = one->ifa_next)
        found |= strcmp(one->ifa_name, "lo") == 0 && one->ifa_addr && one->ifa_addr->sa_family == AF_INET;
    CHECK(found);
    freeifaddrs(list);
    const char *files[] = {"tcp", "udp", "unix", "route", "dev", "arp", "snmp", "sockstat"};
    for (size_t index = 0; index < sizeof files / sizeof *files; index++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/net/%s", files[index]);
        CHECK(has(path, ""));
    }
    CHECK(has("/proc/net/dev", "lo:") && has("/proc/net/route", "Iface") && has("/proc/net/snmp", "Tcp: "));
}

static void echo(int kind)
{
    int fd = socket(AF_INET, kind, IPPROTO_ICMP);
    if (fd < 0 && (errno == EACCES || errno == EPERM))
        return; /* this host lets nobody; Gyre's tenants may */
    CHECK(fd >= 0);
    struct sockaddr_in to = {AF_INET, 0, {htonl(INADDR_LOOPBACK)}}, from;
    struct { struct icmphdr head; char text[8]; } message = {{ICMP_ECHO}, "payload"};
    message.head.un.echo.id = htons(4242), message.head.un.echo.sequence = htons(3);
    uint32_t sum = 0;
    for (size_t at = 0; at < sizeof message; at += 2)
        sum += *(uint16_t *)((char *)&message + at);
    sum = (sum & 0xffff) + (sum >> 16);
    message.head.checksum = ~(sum + (sum >> 16));
    CHECK(sendto(fd, &message, sizeof message, 0, (struct sockaddr *)&to, sizeof to) == sizeof message);
    for (;;) {
        char buffer[256];
        socklen_t length = sizeof from;
        ssize_t bytes = recvfrom(fd, buffer, sizeof buffer, 0, (struct sockaddr *)&from, &length);
        struct icmphdr *reply = (void *)(kind == SOCK_RAW ? buffer + 20 : buffer);
        CHECK(bytes == (ssize_t)sizeof message + (kind == SOCK_RAW ? 20 : 0));
        if (reply->type == ICMP_ECHO)
            continue; /* a raw socket hears the question too */
        CHECK(reply->type == ICMP_ECHOREPLY && ntohs(reply->un.echo.sequence) == 3);
        CHECK(strcmp((char *)(reply + 1), "payload") == 0 && from.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
        break;
    }
    if (kind == SOCK_DGRAM) {
        struct sockaddr_in own;
        socklen_t length = sizeof own;
        CHECK(getsockname(fd, (struct sockaddr *)&own, &length) == 0 && own.sin_port != 0);
        /* nothing but echo requests */
        message.head.type = ICMP_ECHOREPLY;
        FAILS(sendto(fd, &message, sizeof message, 0, (struct sockaddr *)&to, sizeof to), EINVAL);
        FAILS(sendto(fd, &message, 4, 0, (struct sockaddr *)&to, sizeof to), EINVAL);
    }
    close(fd);
}

int main(void)
{
    routes();
    bad_requests();
    sockets();
    interfaces();
    echo(SOCK_DGRAM);
    echo(SOCK_RAW);
    done("network_questions");
    return 0;
}
