/* A program in a cell leaves it by the call of its runtime, and goes on as an ordinary process: files that were read ahead go on at the right byte,
 * memory, handlers and mask are as they were, and it can fork. With `threads`: several threads cannot leave. On Linux the call is not there.
 *     gyre-cell -- cell_leave */
#include "../linux/check.h"
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define LEAVE 0x1050
#define BYTES 100000
#define MAPPED (4UL << 20)

static int level(void) {
    uint16_t segment;
    __asm__ volatile("mov %%cs, %0" : "=r"(segment));
    return segment & 3;
}

static uint8_t byte_of(long at) { return at * 7 + (at >> 8); }

/* Opens the file for reading, as the C library's streams do. */
static int opens(const char *path) {
    struct stat state;
    int file = open(path, O_RDONLY);
    CHECK(file >= 0 && fstat(file, &state) == 0 && state.st_size == BYTES);
    return file;
}

/* Reads on, which finds the bytes from a position on. */
static void reads(int file, long from, long bytes) {
    static uint8_t got[4096];
    CHECK(read(file, got, bytes) == bytes);
    for (long i = 0; i < bytes; i++) CHECK(got[i] == byte_of(from + i));
}

static volatile sig_atomic_t signals;
static void on_signal(int signal) { signals += signal == SIGUSR1; }

static void *waits(void *end) {
    char byte;
    (void)!read(*(int *)end, &byte, 1);
    return NULL;
}

static int several(void) {
    int ends[2];
    pthread_t thread;
    CHECK(pipe(ends) == 0 && pthread_create(&thread, NULL, waits, &ends[0]) == 0);
    FAILS(syscall(LEAVE, 0L), EBUSY);
    CHECK(level() == 0 && write(ends[1], "x", 1) == 1 && pthread_join(thread, NULL) == 0);
    done("cell_leave");
    return 0;
}

int main(int count, char **arguments) {
    if (count > 1 && strcmp(arguments[1], "threads") == 0) return several();
    if (level() != 0) {
        FAILS(syscall(LEAVE, 0L), ENOSYS);
        done("cell_leave");
        return 0;
    }
    const char *path = "/tmp/cell_leave";
    static uint8_t all[BYTES];
    for (long i = 0; i < BYTES; i++) all[i] = byte_of(i);
    int file = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    CHECK(write(file, all, BYTES) == BYTES && close(file) == 0);

    int first = opens(path), second = opens(path), untouched = opens(path);
    for (long at = 0; at < 5000; at += 1000) reads(first, at, 1000);
    for (long at = 0; at < 60; at += 20) reads(second, at, 20);
    CHECK(lseek(second, 40000, SEEK_SET) == 40000);
    reads(second, 40000, 1);

    uint8_t *heap = malloc(300000);
    for (long i = 0; i < 300000; i++) heap[i] = byte_of(i + 5);
    uint8_t *mapped = mmap(NULL, MAPPED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mapped != MAP_FAILED);
    for (unsigned long at = 0; at < MAPPED; at += 3 * 4096) mapped[at + 9] = at >> 12;
    CHECK(mprotect(mapped, 4096, PROT_READ) == 0);
    sigset_t held, now;
    sigemptyset(&held);
    sigaddset(&held, SIGUSR2);
    CHECK(signal(SIGUSR1, on_signal) != SIG_ERR && sigprocmask(SIG_BLOCK, &held, NULL) == 0);
    double kept = count * 1.5;
    CHECK(fork() == -1 && errno == EAGAIN);
    /* With a request it would make a cell, which it is. */
    CHECK(syscall(LEAVE, 8L) == -1 && level() == 0);
    for (long at = 5000; at < 5030; at += 10) reads(first, at, 10);

    CHECK(syscall(LEAVE, 0L) == 0);
    CHECK(level() == 3 && kept == count * 1.5);
    reads(first, 5030, 1000);
    CHECK(lseek(first, 0, SEEK_CUR) == 6030 && lseek(second, 0, SEEK_CUR) == 40001);
    reads(second, 40001, 4096);
    reads(untouched, 0, 100);
    for (long i = 0; i < 300000; i++) CHECK(heap[i] == byte_of(i + 5));
    for (unsigned long at = 0; at < MAPPED; at += 4096) CHECK(mapped[at + 9] == (at % (3 * 4096) ? 0 : (uint8_t)(at >> 12)));
    CHECK(mprotect(mapped, 4096, PROT_READ | PROT_WRITE) == 0);
    memset(mapped, 1, MAPPED);
    memset(heap, 2, 300000);
    free(heap);
    uint8_t *more = malloc(5 << 20);
    CHECK(more != NULL);
    memset(more, 3, 5 << 20);
    CHECK(raise(SIGUSR1) == 0 && signals == 1);
    CHECK(sigprocmask(SIG_BLOCK, NULL, &now) == 0 && sigismember(&now, SIGUSR2) == 1 && sigismember(&now, SIGUSR1) == 0);
    pid_t child = fork();
    if (child == 0) _exit(mapped[100] + 6);
    CHECK(child > 0 && status_of(child) == 7 << 8);
    CHECK(unlink(path) == 0);
    done("cell_leave");
    return 0;
}
