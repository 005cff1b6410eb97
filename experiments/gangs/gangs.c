/* Two threads, each on a core of its own, that count and note when they get their core.
 *
 * gangs RUNTIME_US PERIOD_US: on Linux each thread asks for so much of each period by SCHED_DEADLINE; 0 0 asks for nothing. On Gyre the tenant's cell
 * says so. Each second: "gangs: work COUNT AT_NS", "gangs: skew50 NS", "gangs: skew90 NS": how far apart the threads' slots begin.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define SLOTS 4096
#define THREADS 2

struct attr { uint32_t size, policy; uint64_t flags; int32_t nice; uint32_t priority; uint64_t runtime, deadline, period; };

static struct { volatile uint64_t count, slots; uint64_t began[SLOTS]; char pad[64]; } of[THREADS];
static uint64_t runtime_us, period_us, cycles_per_ms;
static int is_linux;

static uint64_t ns(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000ull + t.tv_nsec; }

static void calibrate(void)
{
	uint64_t t = ns(), c = __rdtsc();
	while (ns() - t < 20000000) ;
	cycles_per_ms = (__rdtsc() - c) * 1000000 / (ns() - t);
}

static void *work(void *argument)
{
	long me = (long)argument;
	if (is_linux && runtime_us) {
		struct attr a = { .size = sizeof a, .policy = 6, .runtime = runtime_us * 1000, .deadline = period_us * 1000, .period = period_us * 1000 };
		if (syscall(SYS_sched_setattr, 0, &a, 0)) perror("gangs: SCHED_DEADLINE");
	} else {
		cpu_set_t set;
		CPU_ZERO(&set);
		CPU_SET(me, &set);
		sched_setaffinity(0, sizeof set, &set);
	}
	uint64_t last = __rdtsc();
	for (;;) {
		uint64_t now = __rdtsc();
		/* Away for a millisecond: a slot has ended, and another one begins. */
		if (now - last > cycles_per_ms && of[me].slots < SLOTS) {
			of[me].began[of[me].slots] = now;
			of[me].slots++;
		}
		last = now;
		of[me].count++;
	}
	return 0;
}

static int order(const void *a, const void *b) { uint64_t x = *(uint64_t *)a, y = *(uint64_t *)b; return x < y ? -1 : x > y; }

static uint64_t apart(uint64_t i, uint64_t j) { uint64_t a = of[0].began[i], b = of[1].began[j]; return a > b ? a - b : b - a; }

static void tell(void)
{
	static uint64_t skew[SLOTS];
	uint64_t at = ns(), count = of[0].count + of[1].count;
	uint64_t n0 = of[0].slots, n1 = of[1].slots, n = 0;
	/* Both are in the order of time: the nearest of the other thread's is never before that of the slot before. */
	for (uint64_t i = 0, j = 0; i < n0 && n1; i++) {
		while (j + 1 < n1 && apart(i, j + 1) <= apart(i, j)) j++;
		skew[n++] = apart(i, j);
	}
	qsort(skew, n, sizeof *skew, order);
	/* The count and its time are one look: a thread that waits for its core says both late. */
	printf("gangs: work %llu %llu\n", (unsigned long long)count, (unsigned long long)at);
	if (n) {
		printf("gangs: skew50 %llu\n", (unsigned long long)(skew[n / 2] * 1000000 / cycles_per_ms));
		printf("gangs: skew90 %llu\n", (unsigned long long)(skew[n * 9 / 10] * 1000000 / cycles_per_ms));
	}
	fflush(stdout);
}

int main(int count, char **words)
{
	struct utsname name;
	pthread_t thread;
	runtime_us = count > 1 ? strtoull(words[1], 0, 10) : 0;
	period_us = count > 2 ? strtoull(words[2], 0, 10) : 0;
	is_linux = !uname(&name) && strstr(name.version, "Debian");
	calibrate();
	for (long i = 0; i < THREADS; i++) pthread_create(&thread, 0, work, (void *)i);
	for (;;) {
		sleep(1);
		tell();
	}
}
