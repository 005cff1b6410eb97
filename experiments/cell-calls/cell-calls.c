/* Measures calls and privileged instructions in a cell, and becoming a cell, beside fork and exec (XOS, Tables I and II).
 * On an emulator that counts instructions as nanoseconds (`-icount shift=0`) the time stamp counter counts the instructions of all cores;
 * those that have nothing to do halt. Each line: "cell-calls: NAME COUNT", the least of several batches, for one call.
 * `gyre exp cell-calls` runs this as an ordinary process ("process"), which makes itself a cell if there are cells, and again by the
 * launcher ("cell"). */
#define _GNU_SOURCE
#include "../../user/cell/include/gyre_cell.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <x86intrin.h>

#define BATCHES 7
#define CALLS 2000
#define LAUNCHES 8
#define LOT (2UL << 20)
#define PAGE_AT 0x100000000UL

static const char *ground;
static const char *own;

static void must(int good, const char *what) {
    if (good) return;
    printf("cell-calls: FAILED %s: %s\n", what, strerror(errno));
    fflush(stdout);
    exit(1);
}

static void say(const char *name, uint64_t count) {
    printf("cell-calls: %s-%s %lu\n", ground, name, (unsigned long)count);
    fflush(stdout);
}

/* A loop around an instruction or two; the loop's own two instructions are taken off. */
#define MEASURE(name, setup, body) do { \
    uint64_t best = UINT64_MAX; \
    for (int batch = 0; batch < BATCHES; batch++) { \
        uint64_t start = __rdtsc(); \
        __asm__ volatile("movl %0, %%r12d\n" setup "1:\n" body "decl %%r12d\n jnz 1b\n" : : "i"(CALLS), "r"(table), "m"(*table) \
            : "rax", "rbx", "rcx", "rdx", "r11", "r12", "memory", "cc"); \
        uint64_t spent = __rdtsc() - start; \
        if (spent < best) best = spent; \
    } \
    say(name, (best + CALLS / 2) / CALLS - 2); \
} while (0)

static uint64_t table[8] __attribute__((aligned(4096)));

static void instructions(void) {
    uint16_t segment;
    MEASURE("getpid", "", "mov $39, %%eax\n syscall\n");
    MEASURE("rdtsc", "", "rdtsc\n");
    MEASURE("rdtscp", "", "rdtscp\n");
    __asm__ volatile("mov %%cs, %0" : "=r"(segment));
    if (segment & 3) return;
    MEASURE("cr8-read", "", "mov %%cr8, %%rax\n");
    MEASURE("cr8-write", "mov %%cr8, %%rax\n", "mov %%rax, %%cr8\n");
    MEASURE("cr3-read-write", "", "mov %%cr3, %%rax\n mov %%rax, %%cr3\n");
    MEASURE("sgdt", "", "sgdt (%1)\n");
    MEASURE("lgdt", "sgdt (%1)\n", "lgdt (%1)\n");
    MEASURE("sidt", "", "sidt (%1)\n");
    MEASURE("lidt", "sidt (%1)\n", "lidt (%1)\n");
    MEASURE("invlpg", "", "invlpg (%1)\n");
}

/* From fork to the end of the child, which runs a program. */
static void launches(const char *name, char *const words[]) {
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < LAUNCHES; i++) {
        int status;
        uint64_t start = __rdtsc();
        pid_t child = fork();
        must(child >= 0, "fork");
        if (child == 0) {
            execv(words[0], words);
            _exit(125);
        }
        must(waitpid(child, &status, 0) == child, "waitpid");
        uint64_t spent = __rdtsc() - start;
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return;
        if (spent < best) best = spent;
        /* The core and the memory come back. */
        usleep(20000);
    }
    say(name, best);
}

static void forks(void) {
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < LAUNCHES; i++) {
        uint64_t start = __rdtsc();
        pid_t child = fork();
        must(child >= 0, "fork");
        if (child == 0) _exit(0);
        must(waitpid(child, NULL, 0) == child, "waitpid");
        uint64_t spent = __rdtsc() - start;
        if (spent < best) best = spent;
    }
    say("fork-exit-wait", best);
}

/* Into a cell of one lot, a hundred ways out and in again for nothing, and back. Nothing here may fault, so all is touched before. */
static int becomes(uint64_t best[3]) {
    struct gyre_cell_request request = {
        .size = 64, .flags = GYRE_CELL_PRIVILEGED, .cores = 1, .lines = 8, .memory_bytes = LOT, .page = PAGE_AT};
    uint64_t start = __rdtsc();
    if (gyre_cell_enter(&request) != 0) return errno;
    uint64_t entered = __rdtsc();
    for (int i = 0; i < 100; i++) gyre_cell_exit(GYRE_CELL_BELL, 0, 0);
    uint64_t exited = __rdtsc();
    gyre_cell_exit(GYRE_CELL_LEAVE, 0, 0);
    uint64_t left = __rdtsc();
    uint64_t spent[3] = {entered - start, (exited - entered) / 100, left - exited};
    for (int i = 0; i < 3; i++)
        if (spent[i] < best[i]) best[i] = spent[i];
    return 0;
}

static int is_offered(void) {
    struct gyre_cell_request request = {0};
    return gyre_cell_enter(&request) == -1 && errno == EINVAL;
}

static void cells(void) {
    uint64_t best[3] = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
    char *launcher[] = {"/usr/bin/gyre-cell", "--memory", "8M", "--", (char *)own, "nothing", NULL};
    must(mlockall(MCL_CURRENT) == 0, "mlockall");
    for (int i = 0; i < LAUNCHES; i++) {
        int error = becomes(best);
        must(error == 0, strerror(error));
        usleep(20000);
    }
    say("enter", best[0]);
    say("exit-and-back", best[1]);
    say("leave", best[2]);
    munlockall();
    launches("fork-launcher-wait", launcher);
}

int main(int count, char **words) {
    own = words[0];
    if (count > 1 && !strcmp(words[1], "nothing")) return 0;
    ground = count > 1 ? words[1] : "process";
    instructions();
    if (strcmp(ground, "process") != 0) return 0;
    forks();
    launches("fork-exec-exit-wait", (char *[]){(char *)own, "nothing", NULL});
    if (is_offered()) cells();
    return 0;
}
