/* Memory that processes show together is divided among them in their own figures (those of `gyre bill --processes`): a quarter for each
 * of four, more if one writes, ends, is killed or unmaps it, all for the last one. On Linux the call is missing, and the test says so. */
#include "check.h"
#include "gyre.h"
#include <sys/mman.h>

#define MIB (1L << 20)
#define BYTES (8 * MIB)
#define CHILDREN 3
/* Page tables, stacks and kernel objects, which are each process' own, and the program's other pages, which are divided too. */
#define NOISE (MIB / 2)

static long held(pid_t process) {
    struct gyre_figures figures;
    CHECK(gyre_figures(process, &figures) == 0);
    CHECK(!(figures.flags & GYRE_OF_TENANT));
    return figures.memory_bytes;
}

/* The last process' end is followed by that of its memory, on another core perhaps. */
static void expect(const char *what, pid_t process, long wanted) {
    long bytes = 0;
    for (int tries = 0; tries < 5000; tries++) {
        bytes = held(process);
        if (bytes >= wanted - NOISE && bytes <= wanted + NOISE) return;
        sleep_ms(20);
    }
    dprintf(1, "FAILED parts: %s: %ld KiB, not %ld KiB\n", what, bytes >> 10, wanted >> 10);
    _exit(1);
}

static int orders[CHILDREN][2], answers[2];
static pid_t children[CHILDREN];
static void answer(void) { CHECK(write(answers[1], "x", 1) == 1); }
static void answered(void) { char byte; CHECK(read(answers[0], &byte, 1) == 1); }
static void order(int child, char what) { CHECK(write(orders[child][1], &what, 1) == 1); answered(); }

static void serve(int number, char *memory) {
    answer();
    for (char what; read(orders[number][0], &what, 1) == 1; answer())
        if (what == 'w') memset(memory, 2, BYTES / 2);
    _exit(0);
}

static void end(int number) {
    kill(children[number], SIGKILL);
    CHECK(waitpid(children[number], NULL, 0) == children[number]);
}

static void divided(const char *how, char *memory, long base) {
    char what[80];
    long quarter = BYTES / 4;
    pid_t self = getpid();
    for (int i = 0; i < CHILDREN; i++) {
        CHECK(pipe(orders[i]) == 0);
        if ((children[i] = fork()) == 0) serve(i, memory);
        CHECK(children[i] > 0);
        answered();
    }
    /* Memory that each child has beside. */
    long own[CHILDREN];
    snprintf(what, sizeof what, "%s: a quarter", how);
    expect(what, self, base - BYTES + quarter);
    for (int i = 0; i < CHILDREN; i++) {
        expect(what, children[i], quarter);
        own[i] = held(children[i]) - quarter;
    }
    order(0, 'w');
    snprintf(what, sizeof what, "%s: one has written a half", how);
    expect(what, children[0], BYTES / 2 + BYTES / 2 / 4 + own[0]);
    for (int i = 1; i < CHILDREN; i++) expect(what, children[i], BYTES / 2 / 4 + BYTES / 2 / 3 + own[i]);
    expect(what, self, base - BYTES + BYTES / 2 / 4 + BYTES / 2 / 3);
    end(0);
    snprintf(what, sizeof what, "%s: one was killed", how);
    expect(what, self, base - BYTES + BYTES / 3);
    expect(what, children[1], BYTES / 3 + own[1]);
    CHECK(munmap(memory, BYTES) == 0);
    snprintf(what, sizeof what, "%s: one has unmapped it", how);
    expect(what, self, base - BYTES);
    expect(what, children[1], BYTES / 2 + own[1]);
    end(1);
    snprintf(what, sizeof what, "%s: the last one", how);
    expect(what, children[2], BYTES + own[2]);
    end(2);
    for (int i = 0; i < CHILDREN; i++) close(orders[i][0]), close(orders[i][1]);
}

static char *region(int flags, int advice) {
    char *memory = mmap(NULL, BYTES + 2 * MIB, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    char *start = (char *)(((uintptr_t)memory + 2 * MIB - 1) & ~(uintptr_t)(2 * MIB - 1));
    if (start > memory) CHECK(munmap(memory, start - memory) == 0);
    if (start + BYTES < memory + BYTES + 2 * MIB) CHECK(munmap(start + BYTES, memory + 2 * MIB - start) == 0);
    if (advice >= 0) CHECK(madvise(start, BYTES, advice) == 0);
    memset(start, 1, BYTES);
    return start;
}

int main(void) {
    struct gyre_figures figures;
    if (gyre_figures(0, &figures) < 0 && errno == ENOSYS) {
        puts("no figures here");
        done("parts");
        return 0;
    }
    CHECK(pipe(answers) == 0);
    char *memory = region(MAP_PRIVATE, MADV_NOHUGEPAGE);
    divided("single pages", memory, held(getpid()));
    memory = region(MAP_PRIVATE, MADV_HUGEPAGE);
    divided("huge pages", memory, held(getpid()));
    done("parts");
    return 0;
}
