/* Attacks on neighbours, one after the other, and the neighbours' own work.
 *
 * attacks work       a mix of computing and small calls; each 200 ms "attacks: work COUNT BILLED_NS NOW_NS"
 * attacks attack S   each attack for S seconds, with a rest of one second before: "attacks: begins NAME NOW_NS", "attacks: ends NAME NOW_NS",
 *                    first "rest", in which it does nothing; at the end "attacks: done 0"
 * attacks serve FPS PERCENT
 *                    the same mix, so much of a core for each frame that is due, with truthful heartbeats: "attacks: work COUNT BILLED_NS NOW_NS
 *                    FRAMES LATE"
 * attacks lie S      as attack, with lies to the broker in its page of heartbeats; on Linux the page is the file /beats, which the agent reads
 *
 * NOW_NS is of the machine's monotonic clock.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <gyre.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096
#define MS 1000000ull

static uint64_t clock_ns(clockid_t id) { struct timespec t; clock_gettime(id, &t); return t.tv_sec * 1000000000ull + t.tv_nsec; }
static uint64_t now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }
static void rest_ns(uint64_t ns) { struct timespec t = {ns / 1000000000, ns % 1000000000}; nanosleep(&t, NULL); }

static volatile uint64_t until;
static int is_over(void) { return now_ns() >= until; }

/* The bill of this process so far: on Gyre with the choices and interrupts on its bill, which no clock of its own shows. */
static uint64_t billed_ns(void)
{
	static struct gyre_figures figures;
	if (gyre_figures(0, &figures)) return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	uint64_t cycles = 0;
	for (uint32_t i = 0; i < figures.resource_count; i++) cycles += figures.resources[i].cycles;
	return (unsigned __int128)cycles * 1000000000 / figures.cycles_per_second;
}

static void unit(void)
{
	static volatile uint64_t sum;
	for (int i = 0; i < 20000; i++) sum += i * sum;
	for (int i = 0; i < 4; i++) getppid();
}

static void work(void)
{
	uint64_t count = 0, told = now_ns();
	for (;;) {
		unit();
		count++;
		uint64_t now = now_ns();
		if (now - told < 200 * MS) continue;
		told = now;
		printf("attacks: work %lu %lu %lu\n", count, billed_ns(), now);
		fflush(stdout);
	}
}

static struct gyre_beats *page_of_beats(void)
{
	struct gyre_beats *page = gyre_goal("frames", GYRE_GOAL_NONE, 0);
	if (page) return page;
	int file = open("/beats", O_RDWR | O_CREAT | O_TRUNC, 0644);
	if (file < 0 || ftruncate(file, PAGE)) return NULL;
	page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (page == MAP_FAILED) return NULL;
	page->version = 1;
	return page;
}

static int serve(double fps, double part)
{
	struct gyre_beats *page = page_of_beats();
	if (!page) return puts("attacks: FAILED no page of heartbeats"), 1;
	uint64_t begun = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	for (int i = 0; i < 100; i++) unit();
	double unit_ns = (clock_ns(CLOCK_PROCESS_CPUTIME_ID) - begun) / 100.0;
	uint64_t period = (uint64_t)(1e9 / fps), each = (uint64_t)(part * 1e9 / fps / unit_ns) + 1, count = 0, late = 0;
	uint64_t first = now_ns(), told = first;
	for (uint64_t frame = 0;; frame++) {
		uint64_t due = first + frame * period, now = now_ns();
		if (now < due) rest_ns(due - now);
		for (uint64_t i = 0; i < each; i++) unit();
		count += each;
		now = now_ns();
		gyre_beat(page, now - due);
		late += now - due > period;
		if (now - told < 200 * MS) continue;
		told = now;
		printf("attacks: work %lu %lu %lu %lu %lu\n", count, billed_ns(), now, frame + 1, late);
		fflush(stdout);
	}
}

/* 17: lies to the broker. Each computes as much as it gets. */
static struct gyre_beats *page;

static void tell_late(void) { while (!is_over()) { unit(); gyre_beat(page, 10000000000ull); } }

static void tell_backwards(void)
{
	for (uint64_t round = 0; !is_over(); round++) {
		unit();
		gyre_beat(page, 10000000000ull);
		if (round % 16 == 15) page->beats -= 20, page->sum_ns -= 400000000000ull, page->buckets[GYRE_BEAT_BUCKETS - 1] -= 20;
	}
}

static void tell_absurd(void)
{
	for (uint64_t round = 1; !is_over(); round++) {
		unit();
		page->beats = round % 2 ? UINT64_MAX - round : round;
		page->sum_ns = UINT64_MAX / round;
		page->last_ns = UINT64_MAX;
		for (int i = 0; i < GYRE_BEAT_BUCKETS; i++) page->buckets[i] = UINT64_MAX - i * round;
	}
	memset(page->buckets, 0, sizeof page->buckets);
	page->beats = page->sum_ns = page->last_ns = 0;
}

/* 2: faults that are caught, and children that die of them. */
static sigjmp_buf back;
static void caught(int signal) { siglongjmp(back, signal); }

static void faults(void)
{
	signal(SIGSEGV, caught);
	while (!is_over())
		for (int i = 0; i < 100; i++)
			if (!sigsetjmp(back, 1)) *(volatile int *)8 = 1;
	signal(SIGSEGV, SIG_DFL);
}

static void crashes(void)
{
	while (!is_over()) {
		pid_t child = fork();
		if (!child) *(volatile int *)8 = 1;
		if (child > 0) waitpid(child, NULL, 0);
		else rest_ns(MS);
	}
}

/* 7: processes, timers, pending signals. */
static void forks(void)
{
	while (!is_over()) {
		pid_t children[16];
		int count = 0;
		while (count < 16 && (children[count] = fork()) > 0) count++;
		if (count < 16 && !children[count]) _exit(0);
		while (count) waitpid(children[--count], NULL, 0);
	}
}

static void timers(void)
{
	signal(SIGRTMIN, SIG_IGN);
	timer_t made[64];
	int count = 0;
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
	struct itimerspec each = {{0, MS / 5}, {0, MS / 5}};
	while (count < 64 && !timer_create(CLOCK_MONOTONIC, &event, &made[count])) timer_settime(made[count++], 0, &each, NULL);
	while (!is_over()) rest_ns(MS);
	while (count) timer_delete(made[--count]);
}

static void signals(void)
{
	sigset_t all, before;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	union sigval value = {0};
	while (!is_over())
		for (int i = 0; i < 200; i++) {
			sigqueue(getpid(), SIGRTMIN + 1, value);
			struct timespec none = {0, 0};
			if (i % 2) sigtimedwait(&all, NULL, &none);
		}
	struct timespec none = {0, 0};
	while (sigtimedwait(&all, NULL, &none) > 0) ;
	sigprocmask(SIG_SETMASK, &before, NULL);
}

/* 7: descriptors and watches until there are no more, again and again. */
static void watches(void)
{
	while (!is_over()) {
		int set = epoll_create1(0), made[2048], count = 0;
		while (count < 2048 && (made[count] = eventfd(0, 0)) >= 0) {
			struct epoll_event event = {.events = EPOLLIN};
			epoll_ctl(set, EPOLL_CTL_ADD, made[count++], &event);
		}
		while (count) close(made[--count]);
		if (set >= 0) close(set);
	}
}

/* 7: ports of its own address. */
static void ports(void)
{
	while (!is_over()) {
		int made[512], count = 0;
		while (count < 512 && (made[count] = socket(AF_INET, SOCK_DGRAM, 0)) >= 0) {
			struct sockaddr_in any = {.sin_family = AF_INET};
			bind(made[count++], (struct sockaddr *)&any, sizeof any);
		}
		while (count) close(made[--count]);
	}
}

/* 8: another right and another page each time, beside a thread that has the space on its core. */
static void *spins(void *unused) { while (!is_over()) sched_yield(); return unused; }

static void shoot_downs(void)
{
	pthread_t beside;
	pthread_create(&beside, NULL, spins, NULL);
	while (!is_over()) {
		char *area = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (area == MAP_FAILED) { rest_ns(MS); continue; }
		for (int i = 0; i < 16; i++) area[i * PAGE] = 1;
		for (int i = 0; i < 8; i++) mprotect(area, 16 * PAGE, i % 2 ? PROT_READ | PROT_WRITE : PROT_READ);
		munmap(area, 16 * PAGE);
	}
	pthread_join(beside, NULL);
}

/* 9: long changes of names, futexes that nobody needs, pages that come and go. */
static void names(void)
{
	int file = open("/attack-a", O_CREAT | O_WRONLY, 0600);
	if (file >= 0) close(file);
	while (!is_over()) rename("/attack-a", "/attack-b"), rename("/attack-b", "/attack-a");
	unlink("/attack-a");
}

static void futexes(void)
{
	static int words[4096];
	while (!is_over())
		for (int i = 0; i < 4096; i++) syscall(SYS_futex, &words[i], FUTEX_WAKE, 1 << 30, NULL, NULL, 0);
}

static void pages(void)
{
	while (!is_over()) {
		size_t bytes = 8 << 20;
		char *area = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (area == MAP_FAILED) { rest_ns(MS); continue; }
		for (size_t at = 0; at < bytes; at += PAGE) area[at] = 1;
		munmap(area, bytes);
	}
}

/* 11: computes until shortly before a look at the clock, sleeps then; and wakes in herds. */
static void cheats(void)
{
	while (!is_over()) {
		uint64_t begun = now_ns();
		while (now_ns() - begun < 900000) ;
		rest_ns(1000);
	}
}

static void yields(void) { while (!is_over()) for (int i = 0; i < 100; i++) sched_yield(); }

static void *naps(void *unused) { while (!is_over()) rest_ns(1000); return unused; }

static void herd(void)
{
	pthread_t threads[16];
	int count = 0;
	while (count < 16 && !pthread_create(&threads[count], NULL, naps, NULL)) count++;
	while (count) pthread_join(threads[--count], NULL);
}

/* 12: tiny requests, and their asker's death while they are under way. */
static void requests(void)
{
	int file = open("/attack-c", O_CREAT | O_RDWR, 0600);
	char byte = 1;
	while (!is_over()) {
		pwrite(file, &byte, 1, 0);
		fdatasync(file);
	}
	close(file);
	unlink("/attack-c");
}

static void deaths(void)
{
	while (!is_over()) {
		pid_t child = fork();
		if (!child) {
			char name[32];
			snprintf(name, sizeof name, "/attack-%d", getpid());
			int file = open(name, O_CREAT | O_RDWR, 0600);
			unlink(name);
			char bytes[PAGE] = {1};
			for (;;) {
				pwrite(file, bytes, sizeof bytes, 0);
				fsync(file);
			}
		}
		rest_ns(2 * MS);
		if (child > 0) kill(child, SIGKILL), waitpid(child, NULL, 0);
	}
}

static void rests(void) { while (!is_over()) rest_ns(20 * MS); }
static void computes(void) { static volatile long sum; while (!is_over()) for (int i = 0; i < 100000; i++) sum += i; }

struct attack { const char *name; void (*make)(void); };

static const struct attack attacks[] = {
	{"rest", rests}, {"computes", computes}, {"faults", faults}, {"crashes", crashes}, {"forks", forks}, {"timers", timers},
	{"signals", signals}, {"watches", watches}, {"ports", ports}, {"shoot-downs", shoot_downs}, {"names", names}, {"futexes", futexes}, {"pages", pages}, {"cheats", cheats},
	{"yields", yields}, {"herd", herd}, {"requests", requests}, {"deaths", deaths},
};

static const struct attack lies[] = {
	{"rest", rests}, {"tells-late", tell_late}, {"tells-backwards", tell_backwards}, {"tells-absurd", tell_absurd},
};

static void make(const struct attack *list, size_t count, double seconds)
{
	rest_ns(2000 * MS);
	for (size_t at = 0; at < count; at++) {
		rest_ns(1000 * MS);
		until = now_ns() + (uint64_t)(seconds * 1e9);
		printf("attacks: begins %s %lu\n", list[at].name, now_ns());
		fflush(stdout);
		list[at].make();
		printf("attacks: ends %s %lu\n", list[at].name, now_ns());
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "work")) work();
	if (argc == 4 && !strcmp(argv[1], "serve")) return serve(atof(argv[2]), atof(argv[3]) / 100);
	int is_lie = argc == 3 && !strcmp(argv[1], "lie");
	if (!is_lie && (argc != 3 || strcmp(argv[1], "attack"))) return puts("attacks: FAILED usage"), 2;
	if (is_lie && !(page = page_of_beats())) return puts("attacks: FAILED no page of heartbeats"), 1;
	if (is_lie) make(lies, sizeof lies / sizeof *lies, atof(argv[2]));
	else make(attacks, sizeof attacks / sizeof *attacks, atof(argv[2]));
	puts("attacks: done 0");
	fflush(stdout);
	for (;;) pause();
}
