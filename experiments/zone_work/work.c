/* A program that does one kind of work over and over, and tells by HTTP what it has done: each experiment on zones orders it about.
 *
 *   work CORE [NEAR FAR]  binds itself to the core; NEAR and FAR are addresses of servers for the kinds of that name
 *                         (`talk-near` and `bulk-far` ask the channels `near/echo` and `far/echo`; on Linux a process of their own)
 *   GET /KIND             begins the kind of work, or `idle`; counts start at 0
 *   GET /take             "OPERATIONS P50_NS P99_NS SLOWEST_NS" since the last such question
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../user/native/include/gyre.h"

#define TIMES 65536
#define MIB (1ul << 20)
#define PAGE 4096

static uint64_t ns(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000ull + t.tv_nsec; }

static void die(const char *what) { perror(what); exit(1); }

static void idle(void) { usleep(2000); }

static void compute(void)
{
	static volatile uint64_t sum;
	for (int i = 0; i < 100000; i++) sum += i;
}

static void touch(size_t bytes)
{
	char *at = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED) die("mmap");
	for (size_t i = 0; i < bytes; i += PAGE) at[i] = 1;
	munmap(at, bytes);
}

static void small(void) { touch(MIB); }
static void large(void) { touch(128 * MIB); }

static void names(void)
{
	for (int i = 0; i < 8; i++) {
		char name[64];
		struct stat stat_of;
		snprintf(name, sizeof name, "/srv/name-%d", i);
		int file = open(name, O_CREAT | O_WRONLY, 0644);
		if (file < 0) die("names");
		close(file);
		stat(name, &stat_of);
		unlink(name);
	}
}

static void reads(void)
{
	static char to[32 << 10];
	static int file = -1;
	if (file < 0 && (file = open("/srv/set", O_RDONLY)) < 0) die("/srv/set");
	for (int i = 0; i < 32; i++) if (pread(file, to, sizeof to, (uint64_t)i * sizeof to) <= 0) die("pread");
}

/* Through a file of many times the memory (a hole: no disk is involved), page by page into the cache of files. */
static void hog(void)
{
	static char to[64 << 10];
	static int file = -1;
	static uint64_t at;
	if (file < 0) {
		file = open("/srv/hole", O_CREAT | O_RDWR, 0644);
		if (file < 0 || ftruncate(file, 1024 * MIB)) die("/srv/hole");
	}
	for (int i = 0; i < 16; i++, at = (at + sizeof to) % (1024 * MIB)) if (pread(file, to, sizeof to, at) <= 0) die("hog");
}

static void echo(int from, int to)
{
	char byte;
	while (read(from, &byte, 1) == 1) if (write(to, &byte, 1) != 1) break;
	_exit(0);
}

static void bounce(int to, int from, int times)
{
	char byte = 1;
	for (int i = 0; i < times; i++) if (write(to, &byte, 1) != 1 || read(from, &byte, 1) != 1) die("round trip");
}

static void pipes(void)
{
	static int to[2], from[2];
	if (!to[1]) {
		if (pipe(to) || pipe(from)) die("pipe");
		if (fork() == 0) { close(to[1]); close(from[0]); echo(to[0], from[1]); }
	}
	bounce(to[1], from[0], 20);
}

static void sockets(void)
{
	static int end;
	if (!end) {
		struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = 0 };
		socklen_t length = sizeof at;
		int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
		if (bind(listener, (void *)&at, sizeof at) || listen(listener, 1) || getsockname(listener, (void *)&at, &length)) die("listen");
		if (fork() == 0) {
			int client = accept(listener, 0, 0);
			setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
			echo(client, client);
		}
		end = socket(AF_INET, SOCK_STREAM, 0);
		if (connect(end, (void *)&at, sizeof at)) die("connect");
		setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	}
	bounce(end, end, 10);
}

static void forks(void)
{
	int child = fork(), status;
	if (child == 0) _exit(0);
	if (child < 0 || waitpid(child, &status, 0) != child) die("fork");
}

/* Over a file's pages in the cache. */
static void writes(void)
{
	static char from[32 << 10];
	static int file = -1;
	if (file < 0 && (file = open("/srv/out", O_CREAT | O_RDWR, 0644)) < 0) die("/srv/out");
	for (int i = 0; i < 8; i++) if (pwrite(file, from, sizeof from, (uint64_t)i * sizeof from) != sizeof from) die("pwrite");
}

/* A turn of the threads: whose it is, 0 or 1. */
static _Atomic int turn;

static void pass(int to) { turn = to; syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0); }

static void await(int own) { while (turn != own) syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, 1 - own, 0, 0, 0); }

static void *partner(void *nothing)
{
	for (;;) { await(1); pass(0); }
	return nothing;
}

static void threads(void)
{
	static pthread_t other;
	if (!other && pthread_create(&other, 0, partner, 0)) die("thread");
	for (int i = 0; i < 20; i++) { pass(1); await(0); }
}

/* Many files, one of which is ready. */
static void polls(void)
{
	static struct pollfd files[32];
	uint64_t one = 1;
	for (int i = 0; i < 32 && !files[i].fd; i++) if ((files[i].fd = eventfd(0, EFD_NONBLOCK)) < 0) die("eventfd");
	for (int i = 0; i < 32; i++) {
		files[i].events = POLLIN;
		if (write(files[i].fd, &one, sizeof one) != sizeof one || poll(files, 32, -1) != 1 || read(files[i].fd, &one, sizeof one) != sizeof one) die("polls");
	}
}

static void caught(int number) { (void)number; }

static void signals(void)
{
	struct sigaction action = { .sa_handler = caught };
	if (sigaction(SIGUSR1, &action, 0)) die("sigaction");
	for (int i = 0; i < 32; i++) pthread_kill(pthread_self(), SIGUSR1);
}

static const char *servers[2];

/* Downloads 16 MiB. */
static void pull(const char *from)
{
	static char to[256 << 10];
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(80) };
	static const char words[] = "GET /16m HTTP/1.1\r\nHost: server\r\nConnection: close\r\n\r\n";
	int end = socket(AF_INET, SOCK_STREAM, 0);
	size_t all = 0;
	ssize_t got;
	if (!from || inet_pton(AF_INET, from, &at.sin_addr) != 1) die("no such server");
	if (connect(end, (void *)&at, sizeof at) || write(end, words, sizeof words - 1) < 0) { perror("server"); close(end); usleep(100000); return; }
	while ((got = read(end, to, sizeof to)) > 0) all += got;
	if (all < 16 * MIB) die("the download is short");
	close(end);
}

static void near(void) { pull(servers[0]); }
static void far(void) { pull(servers[1]); }

#define LARGE (64 << 10)
#define LARGE_MESSAGES 16

/* Answers messages until the other end goes: a small one with itself, the last of some large ones with a byte. */
static void answer_messages(int end)
{
	static __thread char data[LARGE];
	ssize_t got;
	while ((got = read(end, data, sizeof data)) > 0)
		if (got < LARGE ? write(end, data, got) != got : data[0] && write(end, data, 1) != 1) break;
}

static void *answer_channel(void *end) { answer_messages((int)(long)end); close((int)(long)end); return 0; }

static void *serve_channels(void *nothing)
{
	int listener = gyre_channel_listen("echo", 0, 0), end;
	pthread_t thread;
	if (listener < 0) return nothing; /* Linux */
	for (;;) if ((end = gyre_channel_accept(listener, 0)) >= 0) pthread_create(&thread, 0, answer_channel, (void *)(long)end);
}

/* A channel to a tenant; on Linux messages of UNIX sockets to a process of this one. */
static int channel(const char *name)
{
	int ends[2], end = gyre_channel_connect(name, 0, 0);
	if (end >= 0) return end;
	if (errno != ENOSYS) die(name);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends)) die("socketpair");
	if (fork() == 0) { close(ends[0]); answer_messages(ends[1]); _exit(0); }
	close(ends[1]);
	return ends[0];
}

static void talk(int end)
{
	char data[64] = { 1 };
	for (int i = 0; i < 20; i++) if (write(end, data, sizeof data) != sizeof data || read(end, data, sizeof data) != sizeof data) die("talk");
}

static void bulk(int end)
{
	static char data[LARGE];
	for (int i = 0; i < LARGE_MESSAGES; i++) {
		data[0] = i == LARGE_MESSAGES - 1;
		if (write(end, data, sizeof data) != sizeof data) die("bulk");
	}
	if (read(end, data, sizeof data) != 1) die("bulk");
}

static int channel_near(void) { static int end; return end ? end : (end = channel("near/echo")); }
static int channel_far(void) { static int end; return end ? end : (end = channel("far/echo")); }
static void talk_near(void) { talk(channel_near()); }
static void talk_far(void) { talk(channel_far()); }
static void bulk_near(void) { bulk(channel_near()); }
static void bulk_far(void) { bulk(channel_far()); }

static const struct kind { const char *name; void (*run)(void); } kinds[] = {
	{ "idle", idle }, { "compute", compute }, { "faults", small }, { "large", large }, { "names", names }, { "reads", reads },
	{ "pipes", pipes }, { "sockets", sockets }, { "forks", forks }, { "hog", hog },
	{ "writes", writes }, { "threads", threads }, { "polls", polls }, { "signals", signals },
	{ "near", near }, { "far", far },
	{ "talk-near", talk_near }, { "talk-far", talk_far }, { "bulk-near", bulk_near }, { "bulk-far", bulk_far },
};
#define KINDS (sizeof kinds / sizeof *kinds)

static const struct kind *volatile now = kinds;
static uint64_t times[TIMES], done;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *work(void *nothing)
{
	for (;;) {
		const struct kind *kind = now;
		uint64_t began = ns();
		kind->run();
		uint64_t took = ns() - began;
		pthread_mutex_lock(&lock);
		if (kind == now && kind != kinds) times[done++ % TIMES] = took;
		pthread_mutex_unlock(&lock);
	}
	return nothing;
}

static int order(const void *a, const void *b) { uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b; return x < y ? -1 : x > y; }

static int take(char *to, size_t bytes)
{
	static uint64_t sorted[TIMES];
	pthread_mutex_lock(&lock);
	uint64_t count = done, kept = done < TIMES ? done : TIMES;
	memcpy(sorted, times, kept * sizeof *times);
	done = 0;
	pthread_mutex_unlock(&lock);
	qsort(sorted, kept, sizeof *sorted, order);
	unsigned long long p50 = kept ? sorted[kept / 2] : 0, p99 = kept ? sorted[kept * 99 / 100] : 0, most = kept ? sorted[kept - 1] : 0;
	return snprintf(to, bytes, "%llu %llu %llu %llu\n", (unsigned long long)count, p50, p99, most);
}

static void answer(int client, const char *path)
{
	char body[128] = "", all[256];
	int length = 0, known = !strncmp(path, "take ", 5);
	if (known) length = take(body, sizeof body);
	for (size_t i = 0; i < KINDS; i++) {
		size_t n = strlen(kinds[i].name);
		if (strncmp(path, kinds[i].name, n) || path[n] != ' ') continue;
		now = &kinds[i];
		take(body, sizeof body);
		known = 1;
	}
	int bytes = snprintf(all, sizeof all, "HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%.*s", known ? "200 OK" : "404 Not Found", length, length, body);
	if (write(client, all, bytes) < 0) perror("work");
}

int main(int count, char **words)
{
	const char *address = getenv("TENANT_ADDRESS");
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(80) };
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	cpu_set_t set;
	pthread_t thread;
	CPU_ZERO(&set);
	CPU_SET(count > 1 ? atoi(words[1]) : 0, &set);
	if (sched_setaffinity(0, sizeof set, &set)) perror("work: bind to a core");
	for (int i = 0; i < 2 && i + 2 < count; i++) servers[i] = words[i + 2];
	if (address) inet_pton(AF_INET, address, &at.sin_addr);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(listener, (void *)&at, sizeof at) || listen(listener, 16)) die("work");
	pthread_create(&thread, 0, work, 0);
	pthread_create(&thread, 0, serve_channels, 0);
	for (;;) {
		char text[256] = { 0 };
		int client = accept(listener, 0, 0);
		if (client < 0) continue;
		if (read(client, text, sizeof text - 1) > 5 && !strncmp(text, "GET /", 5)) answer(client, text + 5);
		close(client);
	}
}
