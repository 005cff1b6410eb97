/* /proc about running tasks: the state of processes, times that never go back, load averages. */
#include "check.h"
#include <sys/sysinfo.h>

static void text_of(const char *path, char *text, size_t bytes) {
    int file = open(path, O_RDONLY);
    CHECK(file >= 0);
    ssize_t got = read(file, text, bytes - 1);
    CHECK(got > 0);
    text[got] = 0;
    close(file);
}

struct times { unsigned long long user, nice, system; };

static struct times times_of_all(void) {
    static char text[1 << 16];
    struct times times;
    text_of("/proc/stat", text, sizeof text);
    CHECK(sscanf(text, "cpu %llu %llu %llu", &times.user, &times.nice, &times.system) == 3);
    CHECK(strstr(text, "\nprocs_running ") && strstr(text, "\nprocesses "));
    return times;
}

static double load_of_file(void) {
    char text[128];
    double one, five, fifteen;
    int running, all;
    text_of("/proc/loadavg", text, sizeof text);
    CHECK(sscanf(text, "%lf %lf %lf %d/%d", &one, &five, &fifteen, &running, &all) == 5);
    CHECK(running >= 1 && all >= running);
    return one;
}

static double load(void) {
    struct sysinfo info;
    double one, again;
    /* The average may move between both answers. */
    do {
        one = load_of_file();
        CHECK(sysinfo(&info) == 0);
        again = load_of_file();
    } while (one != again);
    double told = (double)info.loads[0] / (1 << SI_LOAD_SHIFT);
    CHECK(told > one - 0.5 && told < one + 0.5);
    return one;
}

static void pause_ms(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    CHECK(nanosleep(&time, NULL) == 0);
}

int main(void) {
    CHECK(state_of(getpid()) == 'R');
    pid_t sleeper = fork();
    if (sleeper == 0) {
        pause();
        _exit(0);
    }
    struct times before = times_of_all();
    load();
    pid_t worker = fork();
    if (worker == 0)
        for (;;) __asm__ volatile("");
    /* The average moves every five seconds, by a twelfth of a thread that always runs. */
    double highest = 0;
    while (highest < 0.05) {
        pause_ms(1000);
        double now = load();
        highest = now > highest ? now : highest;
    }
    until_it_waits(sleeper);
    CHECK(state_of(worker) == 'R' && state_of(sleeper) == 'S');
    struct times during = times_of_all();
    while (during.user < before.user + 50) {
        pause_ms(100);
        during = times_of_all();
    }
    CHECK(kill(worker, SIGKILL) == 0 && kill(sleeper, SIGKILL) == 0);
    CHECK(status_of(worker) == SIGKILL && status_of(sleeper) == SIGKILL);
    struct times after = times_of_all();
    CHECK(after.user >= during.user && after.system >= during.system);
    done("load");
    return 0;
}
