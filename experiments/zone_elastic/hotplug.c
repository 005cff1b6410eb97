/* Takes a core, 512 MiB and a network card from a running Linux and gives them back, over and over (sysfs).
 *
 * hotplug ROUNDS: "hotplug: core-off-50 NS" and so on, medians and nine of ten; "hotplug: done 0" at the end. */
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Taken in each round, of at most so many that can be: one in which a page is held for long is passed by. */
#define BLOCKS 4
#define CANDIDATES 8
#define ROUNDS 1000
#define CORE "/sys/devices/system/cpu/cpu1/online"
#define MEMORY "/sys/devices/system/memory"
/* The second card, at the place that the experiment gives it: the first one is the agent's way. */
#define CARD "/sys/bus/pci/devices/0000:00:1c.0"
#define RESCAN "/sys/bus/pci/rescan"
#define CHANGES 6

static char blocks[CANDIDATES][320];
static int candidates, is_taken[CANDIDATES];
static uint64_t times[CHANGES][ROUNDS];
static const char *const names[CHANGES] = { "core-off", "core-on", "memory-off", "memory-on", "card-off", "card-on" };

static uint64_t ns(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000ull + t.tv_nsec; }

static int try(const char *path, const char *word)
{
	int file = open(path, O_WRONLY);
	int is_done = file >= 0 && write(file, word, strlen(word)) == (ssize_t)strlen(word);
	if (file >= 0) close(file);
	return is_done;
}

static void fail(const char *path, const char *word)
{
	printf("hotplug: FAILED %s %s: %m\n", path, word);
	fflush(stdout);
	sleep(1000);
}

/* Time of the write that succeeded; a part that is busy for a moment is asked for again, and that time is not counted. */
static uint64_t put(const char *path, const char *word)
{
	for (int tries = 0; tries < 100; tries++) {
		uint64_t began = ns();
		if (try(path, word)) return ns() - began;
		usleep(20000);
	}
	fail(path, word);
	return 0;
}

static int reads(const char *path, char *to, size_t bytes)
{
	int file = open(path, O_RDONLY);
	ssize_t got = file < 0 ? 0 : read(file, to, bytes - 1);
	if (file >= 0) close(file);
	to[got > 0 ? got : 0] = 0;
	return got > 0;
}

/* Blocks of 128 MiB of the zone for what can be moved; one with a hole or what the firmware keeps cannot be taken. */
static int find(void)
{
	DIR *folder = opendir(MEMORY);
	for (struct dirent *entry; folder && candidates < CANDIDATES && (entry = readdir(folder));) {
		char path[320], text[64];
		if (strncmp(entry->d_name, "memory", 6)) continue;
		snprintf(path, sizeof path, MEMORY "/%s/valid_zones", entry->d_name);
		if (!reads(path, text, sizeof text) || strncmp(text, "Movable", 7)) continue;
		snprintf(blocks[candidates], sizeof *blocks, MEMORY "/%s/online", entry->d_name);
		if (try(blocks[candidates], "0") && put(blocks[candidates], "1")) candidates++;
	}
	return candidates >= BLOCKS;
}

static int has_card(void) { return !access(CARD "/driver", F_OK); }

/* The write comes back when the card is gone, or its driver has begun. */
static uint64_t move_card(int comes)
{
	uint64_t time = put(comes ? RESCAN : CARD "/remove", "1");
	if (has_card() != comes) { printf("hotplug: FAILED the card did not %s\n", comes ? "come" : "go"); fflush(stdout); sleep(1000); }
	return time;
}

/* Time of the writes that took blocks. A block that is busy is passed by for this time around. */
static uint64_t take_memory(void)
{
	uint64_t sum = 0;
	int taken = 0;
	for (int tries = 0; taken < BLOCKS && tries < 100 * CANDIDATES; tries++) {
		int block = tries % candidates;
		uint64_t began = ns();
		if (is_taken[block] || !try(blocks[block], "0")) { usleep(2000); continue; }
		sum += ns() - began;
		is_taken[block] = 1;
		taken++;
	}
	if (taken < BLOCKS) fail(MEMORY, "0");
	return sum;
}

static uint64_t give_memory(void)
{
	uint64_t sum = 0;
	for (int block = 0; block < candidates; block++) if (is_taken[block]) {
		sum += put(blocks[block], "1");
		is_taken[block] = 0;
	}
	return sum;
}

static uint64_t change(int what)
{
	switch (what) {
	case 0: return put(CORE, "0");
	case 1: return put(CORE, "1");
	case 2: return take_memory();
	case 3: return give_memory();
	default: return move_card(what == 5);
	}
}

static int order(const void *a, const void *b) { uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b; return x < y ? -1 : x > y; }

int main(int count, char **words)
{
	int rounds = count > 1 ? atoi(words[1]) : 30;
	if (rounds < 1 || rounds > ROUNDS) return 2;
	mkdir("/sys", 0755);
	if (mount("none", "/sys", "sysfs", 0, 0)) perror("hotplug: FAILED sysfs");
	sleep(3);
	if (!has_card()) { printf("hotplug: FAILED there is no second card\n"); fflush(stdout); sleep(1000); }
	if (!find()) { printf("hotplug: FAILED fewer than %d blocks can be taken\n", BLOCKS); fflush(stdout); sleep(1000); }
	for (int round = 0; round < rounds; round++) {
		for (int what = 0; what < CHANGES; what++) {
			times[what][round] = change(what);
			usleep(20000);
		}
	}
	for (int what = 0; what < CHANGES; what++) {
		qsort(times[what], rounds, sizeof **times, order);
		printf("hotplug: %s-50 %llu\n", names[what], (unsigned long long)times[what][(rounds - 1) / 2]);
		printf("hotplug: %s-90 %llu\n", names[what], (unsigned long long)times[what][(rounds - 1) * 9 / 10]);
	}
	printf("hotplug: done 0\n");
	fflush(stdout);
	sleep(100000);
}
