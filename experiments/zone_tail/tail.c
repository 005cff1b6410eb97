/* A service whose answers have a tail, and batch work, for the experiment zone-tail: the same program in two roles, told by HTTP.
 *
 *   tail service THREADS   GET /search   joins and sorts two lists, then answers
 *   tail batch THREADS     GET /spin     from now on each thread computes
 *                          GET /mix      from now on each thread faults pages, makes and removes names, and computes
 *                          GET /idle     from now on nothing
 *                          GET /take     "OPERATIONS" since the last such question
 *   both                   GET /cores/M  binds all threads to the cores of the mask M (hexadecimal); GET /ready
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define THREADS_MAX 8
#define DOCUMENTS 2048
#define PAGE 4096

enum work { IDLE, SPIN, MIX };

static _Atomic int work_now = IDLE;
static _Atomic unsigned long operations;
static _Atomic int threads[THREADS_MAX + 1], thread_count;
static int listener;

static void die(const char *what) { perror(what); exit(1); }

static void enlist(void) { threads[atomic_fetch_add(&thread_count, 1)] = (int)syscall(SYS_gettid); }

static int order(const void *a, const void *b) { unsigned x = *(const unsigned *)a, y = *(const unsigned *)b; return x < y ? -1 : x > y; }

/* Joins two sorted lists of documents and sorts what both have by another key. */
static unsigned search(void)
{
	static _Thread_local unsigned one[DOCUMENTS], other[DOCUMENTS], both[DOCUMENTS];
	unsigned seed = 12345, count = 0;
	for (unsigned i = 0; i < DOCUMENTS; i++) { one[i] = i * 3; other[i] = i * 2; }
	for (unsigned i = 0, j = 0; i < DOCUMENTS && j < DOCUMENTS;) {
		if (one[i] == other[j]) { seed = seed * 1664525u + 1013904223u; both[count++] = seed ^ one[i]; i++; j++; }
		else if (one[i] < other[j]) i++;
		else j++;
	}
	qsort(both, count, sizeof *both, order);
	return both[count / 2];
}

static void spin(void)
{
	static volatile unsigned long sum;
	for (int i = 0; i < 100000; i++) sum += i;
}

static void mix(int number)
{
	char name[64];
	char *at = mmap(0, 256 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED) die("mmap");
	for (size_t i = 0; i < 256; i++) at[i * PAGE] = 1;
	munmap(at, 256 * PAGE);
	for (int i = 0; i < 8; i++) {
		snprintf(name, sizeof name, "/tmp/mix-%d-%d", number, i);
		int file = open(name, O_CREAT | O_WRONLY, 0644);
		if (file < 0) die(name);
		close(file);
		unlink(name);
	}
	spin();
}

static void *batch(void *number)
{
	enlist();
	for (;;) {
		switch (work_now) {
		case SPIN: spin(); break;
		case MIX: mix((int)(long)number); break;
		default: usleep(2000); continue;
		}
		operations++;
	}
	return 0;
}

static void bind_all(unsigned long mask)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	for (int core = 0; core < 64; core++) if (mask >> core & 1) CPU_SET(core, &set);
	for (int i = 0; i < thread_count; i++) if (sched_setaffinity(threads[i], sizeof set, &set)) perror("tail: bind");
}

static void answer(int client, const char *path)
{
	char body[64] = "", all[256];
	if (!strncmp(path, "search ", 7)) snprintf(body, sizeof body, "%u\n", search());
	else if (!strncmp(path, "take ", 5)) snprintf(body, sizeof body, "%lu\n", atomic_exchange(&operations, 0));
	else if (!strncmp(path, "cores/", 6)) bind_all(strtoul(path + 6, 0, 16));
	else if (!strncmp(path, "spin ", 5)) work_now = SPIN;
	else if (!strncmp(path, "mix ", 4)) work_now = MIX;
	else if (!strncmp(path, "idle ", 5)) work_now = IDLE;
	int bytes = snprintf(all, sizeof all, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s", strlen(body), body);
	if (write(client, all, bytes) < 0) perror("tail");
}

static void *serve(void *nothing)
{
	enlist();
	for (;;) {
		char text[256] = { 0 };
		int client = accept(listener, 0, 0);
		if (client < 0) continue;
		if (read(client, text, sizeof text - 1) > 5 && !strncmp(text, "GET /", 5)) answer(client, text + 5);
		close(client);
	}
	return nothing;
}

int main(int count, char **words)
{
	const char *address = getenv("TENANT_ADDRESS");
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(80) };
	int one = 1, wanted = count > 2 ? atoi(words[2]) : 0;
	pthread_t thread;
	if (wanted < 1 || wanted > THREADS_MAX) { fprintf(stderr, "usage: tail service|batch THREADS\n"); return 2; }
	if (address) inet_pton(AF_INET, address, &at.sin_addr);
	mkdir("/tmp", 0777); /* the image may have none */
	listener = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(listener, (void *)&at, sizeof at) || listen(listener, 64)) die("tail");
	for (long i = 0; i < wanted; i++) {
		void *(*run)(void *) = strcmp(words[1], "batch") ? serve : batch;
		if (pthread_create(&thread, 0, run, (void *)i)) die("thread");
	}
	serve(0);
}
