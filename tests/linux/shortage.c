/* A small process works while a large one has taken all the memory there is: messages into pipes and terminals, handlers of signals,
 * reads into fresh memory. None of it is lost and none of it fails: another process gives memory back, or the large process ends for it. With
 * the argument `limited`, which says that there is a limit below TAKEN bytes, the large process comes to the limit; else there is no want. */
#include "check.h"
#include <signal.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#define PAGE 4096UL
#define TAKEN (64UL << 20)
#define HARMLESS (4UL << 20)
#define PIPES 16
#define LONG 60000
#define FRESH (1UL << 20)
#define REST (1UL << 20)

static int limited, life[2];
/* Memory that begin() took for this process. */
static char *own;
static pid_t large;
static char out[FRESH], in[FRESH];
/* In the program's copy of a page of its file, which children share: it must not become the file's again. */
static volatile int kept = 1;

/* Of a tenant with less memory nothing larger is promised: the program says that it knows. */
static char *fresh(size_t bytes) {
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

/* Takes memory until there is no more. */
static int take(void) {
    size_t bytes = limited ? TAKEN : HARMLESS;
    int taken = madvise(fresh(bytes), bytes, MADV_POPULATE_WRITE);
    return limited ? taken == -1 && errno == ENOMEM : taken == 0;
}

/* Like above, for a few pages that came free meanwhile. */
static int take_rest(void) {
    for (size_t at = 0; at < REST; at += PAGE)
        if (madvise(own + at, PAGE, MADV_POPULATE_WRITE) != 0) return errno == ENOMEM;
    return 0;
}

/* Starts the large one; true if it has all there is, and no other process of this tenant needed a page meanwhile or gave some back. */
static int begin_once(void) {
    int ready[2], status;
    char byte = 1;
    own = fresh(REST);
    CHECK(pipe(ready) == 0 && write(ready[1], &byte, 1) == 1 && read(ready[0], &byte, 1) == 1);
    large = fork();
    CHECK(large >= 0);
    if (large == 0) {
        byte = take();
        close(life[1]);
        /* It stays as long as its parent. */
        if (write(ready[1], &byte, 1) == 1 && read(life[0], &byte, 1) == 0) _exit(0);
        _exit(1);
    }
    close(ready[1]);
    ssize_t said = read(ready[0], &byte, 1);
    close(ready[0]);
    if (said == 1 && byte == 1 && (!limited || take_rest()) && waitpid(large, &status, WNOHANG) == 0) return 1;
    kill(large, SIGKILL);
    waitpid(large, &status, 0);
    munmap(own, REST);
    return 0;
}

static void begin(void) {
    /* One of five tries meets no other process in need, by chance: no number of them is enough for sure. The runner has a time limit. */
    while (!begin_once()) {
    }
}

static void end(void) {
    int status;
    kill(large, SIGKILL);
    CHECK(waitpid(large, &status, 0) == large && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    CHECK(kept == 2);
    munmap(own, REST);
}

static void messages(void) {
    int ends[PIPES][2];
    for (int i = 0; i < PIPES; i++) CHECK(pipe(ends[i]) == 0);
    begin();
    for (int i = 0; i < PIPES; i++) CHECK(write(ends[i][1], out + i, 100) == 100);
    for (int i = 0; i < PIPES; i++) {
        CHECK(read(ends[i][0], in, 200) == 100 && memcmp(in, out + i, 100) == 0);
        close(ends[i][0]);
        close(ends[i][1]);
    }
    end();
}

static void long_message(void) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    begin();
    CHECK(write(ends[1], out, LONG) == LONG);
    size_t done = 0;
    while (done < LONG) {
        ssize_t count = read(ends[0], in + done, LONG - done);
        CHECK(count > 0);
        done += count;
    }
    CHECK(memcmp(in, out, LONG) == 0);
    end();
    close(ends[0]);
    close(ends[1]);
}

static void on_terminal(void) {
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    CHECK(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    CHECK(slave >= 0);
    begin();
    CHECK(write(slave, "one\ntwo\n", 8) == 8 && write(master, "typed\n", 6) == 6);
    CHECK(read(master, in, 100) == 17 && memcmp(in, "one\r\ntwo\r\ntyped\r\n", 17) == 0);
    CHECK(read(slave, in, 100) == 6 && memcmp(in, "typed\n", 6) == 0);
    end();
    close(slave);
    close(master);
}

static volatile sig_atomic_t handled;
static void note(int signal) { handled = signal; }

static void handler(void) {
    stack_t stack = {.ss_sp = fresh(64 * PAGE), .ss_size = 64 * PAGE};
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_ONSTACK};
    CHECK(sigaltstack(&stack, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    begin();
    kill(getpid(), SIGUSR1);
    CHECK(handled == SIGUSR1);
    end();
}

static void fresh_memory(void) {
    int zero = open("/dev/zero", O_RDONLY);
    char *memory = fresh(FRESH);
    begin();
    CHECK(read(zero, memory, FRESH) == (ssize_t)FRESH);
    end();
    munmap(memory, FRESH);
    close(zero);
}

int main(int argc, char **argv) {
    kept = 2;
    limited = argc > 1 && strcmp(argv[1], "limited") == 0;
    CHECK(pipe(life) == 0);
    for (size_t at = 0; at < FRESH; at++) out[at] = (char)(at * 7 + at / 251);
    memset(in, 1, FRESH);
    messages();
    long_message();
    on_terminal();
    handler();
    fresh_memory();
    done("shortage");
    return 0;
}
