/* The leases of a tenant's cells, as its programs see them: before, while a cell runs, from the cell itself, and after. With `count` it says how many
 * there are. Without cells it says so. */
#include "cell.h"
#include "gyre.h"

#define LOTS 2
#define WAITS 3000 /* of 20 ms */

static struct gyre_lease all[4];

/* Waits until there are so many. */
static void are(long wanted) {
    long count = -1;
    for (int i = 0; i < WAITS && (count = gyre_cell_leases(all, 4)) != wanted; i++) sleep_ms(20);
    CHECK(count == wanted);
}

static int bits(uint64_t word) { return __builtin_popcountll(word); }

static void is_right(const struct gyre_lease *lease, pid_t process) {
    CHECK(lease->process == process && lease->state == GYRE_LEASE_RUNS && lease->lots == LOTS);
    CHECK(bits(lease->cores) == 1 && lease->devices == 0 && lease->since_ns > 0);
    CHECK(strcmp(lease->name, "cell_leases") == 0);
    int some = 0;
    for (unsigned i = 0; i < sizeof lease->runtime; i++) some |= lease->runtime[i];
    CHECK(some != 0);
}

/* A cell that sees itself by a line, says so, and stays. */
static void stays(int told) {
    pid_t own = getpid();
    CHECK(cell_enter_soon(LOTS * LOT) == 0);
    memset(all, 0, sizeof all);
    uint64_t words[7] = {GYRE_CELL_LEASES, (uint64_t)all, sizeof all};
    long count = cell_call(words);
    is_right(&all[0], own);
    uint64_t wrong[7] = {GYRE_CELL_LEASES, 8, sizeof all};
    if (count == 1 && cell_call(wrong) == -EFAULT) (void)!write(told, "y", 1);
    for (;;) cell_exit(EXIT_IDLE, 0, 0);
}

int main(int count, char **arguments) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (count == 2 && strcmp(arguments[1], "count") == 0) {
        printf("%ld\n", gyre_cell_leases(all, 4));
        return 0;
    }
    if (!cell_is_offered(count, arguments)) {
        FAILS(gyre_cell_leases(all, 4), ENOSYS);
        done("cell_leases");
        return 0;
    }
    are(0);
    int told[2];
    char byte = 0;
    CHECK(pipe(told) == 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) stays(told[1]);
    close(told[1]);
    CHECK(read(told[0], &byte, 1) == 1 && byte == 'y');
    memset(all, 0xee, sizeof all);
    CHECK(gyre_cell_leases(all, 4) == 1);
    is_right(&all[0], child);
    CHECK(all[1].process == (int32_t)0xeeeeeeee);
    /* No room, a part of it, and far too much. */
    memset(all, 0xee, sizeof all);
    CHECK(gyre_cell_leases(NULL, 0) == 1 && syscall(GYRE_CELL_LEASES, all, sizeof all[0] - 1) == 1);
    CHECK(all[0].process == (int32_t)0xeeeeeeee);
    CHECK(syscall(GYRE_CELL_LEASES, all, -1L) == 1);
    is_right(&all[0], child);
    FAILS(gyre_cell_leases(NULL, 1), EFAULT);
    FAILS(syscall(GYRE_CELL_LEASES, -64L, 88L), EFAULT);
    CHECK(kill(child, SIGKILL) == 0);
    status_of(child);
    are(0);
    done("cell_leases");
    return 0;
}
