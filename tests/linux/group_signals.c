// Signals to several processes that fork meanwhile: one signal reaches all of them, also who is being born.
#include "check.h"
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>

enum { ROUNDS = 40, PROCESSES_MAX = 24 };

static int *population;

// Forks as long as there is room, else reaps; a child in four ends at once, so that there is room again.
static void breed(void) {
    for (;;) {
        if (__atomic_add_fetch(population, 1, __ATOMIC_SEQ_CST) > PROCESSES_MAX) {
            __atomic_sub_fetch(population, 1, __ATOMIC_SEQ_CST);
            sched_yield();
            while (waitpid(-1, NULL, WNOHANG) > 0)
                ;
            continue;
        }
        pid_t child = fork();
        if (child < 0)
            __atomic_sub_fetch(population, 1, __ATOMIC_SEQ_CST);
        if (child == 0 && rand() % 4 == 0) {
            __atomic_sub_fetch(population, 1, __ATOMIC_SEQ_CST);
            _exit(0);
        }
    }
}

// Waits for every descendant; their number, or -1 if one is alive after ten seconds.
static int reap_all(void) {
    int reaped = 0;
    for (int waited_ms = 0; waited_ms < 10000;) {
        pid_t child = waitpid(-1, NULL, WNOHANG);
        if (child < 0)
            return errno == ECHILD ? reaped : -1;
        if (child > 0) {
            reaped++;
            continue;
        }
        usleep(1000);
        waited_ms++;
    }
    return -1;
}

static void one_signal_ends_a_family(int signal) {
    for (int round = 0; round < ROUNDS; round++) {
        *population = 1;
        srand(round);
        pid_t first = fork();
        if (first == 0) {
            setpgid(0, 0);
            breed();
        }
        setpgid(first, first);
        usleep(5000 + 700 * (round % 20));
        CHECK(kill(-first, signal) == 0);
        int reaped = reap_all();
        if (reaped < 0)
            kill(-first, SIGKILL);
        CHECK(reaped > 0);
        CHECK(kill(-first, 0) == -1 && errno == ESRCH);
    }
}

int main(void) {
    population = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(population != MAP_FAILED);
    // Orphans come to this process.
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    one_signal_ends_a_family(SIGKILL);
    one_signal_ends_a_family(SIGTERM);
    done("group_signals");
    return 0;
}
