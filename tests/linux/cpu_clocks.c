/* Processor time of threads and the process: clocks, getrusage, /proc, and timers that count it. Nothing here depends on the time that passes. */
#include "check.h"
#include <pthread.h>
#include <sys/resource.h>

enum { MS = 1000000, BURN_MS = 60 };

static volatile sig_atomic_t ticks, ticked_tid;
static volatile int is_over, sleeper_tid;

static int64_t own_ns(void) { return now_ns(CLOCK_THREAD_CPUTIME_ID); }
static int64_t all_ns(void) { return now_ns(CLOCK_PROCESS_CPUTIME_ID); }

static void burn_ms(int ms)
{
    for (int64_t end = own_ns() + (int64_t)ms * MS; own_ns() < end;)
        for (volatile int i = 0; i < 10000; i++) continue;
}

static void *sleeper(void *unused)
{
    sleeper_tid = syscall(SYS_gettid);
    while (!is_over) sleep_ms(5);
    return unused;
}

static int64_t usage_ns(int who)
{
    struct rusage usage;
    CHECK(getrusage(who, &usage) == 0);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000LL + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000LL;
}

/* A number and a letter of a stat file: processor time in ticks, and the state. */
static long stat_ticks(const char *path, char *state)
{
    char text[1024] = {0};
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0 && read(fd, text, sizeof text - 1) > 0 && close(fd) == 0);
    long user, system;
    char *rest = strrchr(text, ')');
    CHECK(rest && sscanf(rest + 2, "%c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld", state, &user, &system) == 3);
    return user + system;
}

/* One thread computes and one sleeps: each has its own time, and both are the process's. */
static void threads_are_told_apart(void)
{
    pthread_t thread;
    clockid_t other, mine;
    struct timespec time;
    CHECK(pthread_create(&thread, NULL, sleeper, NULL) == 0);
    while (sleeper_tid == 0) sleep_ms(1);
    CHECK(pthread_getcpuclockid(thread, &other) == 0 && pthread_getcpuclockid(pthread_self(), &mine) == 0);
    int64_t other_before = now_ns(other), own_before = own_ns(), all_before = all_ns(), used_before = usage_ns(RUSAGE_THREAD);
    burn_ms(BURN_MS);
    int64_t others = now_ns(other) - other_before, own = own_ns() - own_before, all = all_ns() - all_before;
    CHECK(own >= BURN_MS * MS && others < own / 2);
    /* The process's time is without interrupts that came meanwhile. */
    CHECK(all >= own / 4 * 3);
    CHECK(now_ns(mine) >= own_before + own && usage_ns(RUSAGE_THREAD) - used_before >= own / 2);
    CHECK(usage_ns(RUSAGE_SELF) >= usage_ns(RUSAGE_THREAD) / 2);
    char path[64], state;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", sleeper_tid);
    long idle = stat_ticks(path, &state);
    for (int tries = 0; state != 'S' && tries < 1000; tries++) sleep_ms(1), stat_ticks(path, &state);
    CHECK(state == 'S');
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", getpid());
    CHECK(stat_ticks(path, &state) > idle && state == 'R');
    is_over = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    /* The joiner is woken before the thread has gone. */
    while (clock_gettime(other, &time) == 0) sleep_ms(1);
    FAILS(clock_gettime(other, &time), EINVAL);
    FAILS(clock_gettime(-8 * 1000000 - 2, &time), EINVAL);
}

static void on_tick(int signal) { (void)signal, ticks++, ticked_tid = syscall(SYS_gettid); }

static timer_t timer_on(clockid_t clock, int notify)
{
    timer_t timer;
    struct sigevent event = {.sigev_notify = notify, .sigev_signo = SIGPROF};
    event._sigev_un._tid = syscall(SYS_gettid);
    CHECK(timer_create(clock, &event, &timer) == 0);
    return timer;
}

static void set_timer(timer_t timer, int flags, int64_t value_ns, int64_t every_ns)
{
    struct itimerspec wanted = {{every_ns / 1000000000, every_ns % 1000000000}, {value_ns / 1000000000, value_ns % 1000000000}};
    CHECK(timer_settime(timer, flags, &wanted, NULL) == 0);
}

static int64_t left_ns(timer_t timer)
{
    struct itimerspec shown;
    CHECK(timer_gettime(timer, &shown) == 0);
    return shown.it_value.tv_sec * 1000000000LL + shown.it_value.tv_nsec;
}

/* A timer counts while its owner computes and not while it sleeps. */
static void a_timer_counts_on(clockid_t clock, int notify)
{
    timer_t timer = timer_on(clock, notify);
    CHECK(left_ns(timer) == 0);
    ticks = 0;
    set_timer(timer, 0, 200 * MS, 0);
    int64_t before = left_ns(timer);
    CHECK(before > 100 * MS && before <= 200 * MS);
    sleep_ms(400);
    CHECK(ticks == 0 && before - left_ns(timer) < 100 * MS);
    for (int64_t end = own_ns() + 5000LL * MS; ticks == 0 && own_ns() < end;) burn_ms(5);
    CHECK(ticks == 1 && left_ns(timer) == 0);
    if (notify == SIGEV_THREAD_ID) CHECK(ticked_tid == syscall(SYS_gettid));
    set_timer(timer, 0, 10 * MS, 10 * MS);
    ticks = 0;
    for (int64_t end = own_ns() + 5000LL * MS; ticks < 3 && own_ns() < end;) burn_ms(5);
    CHECK(ticks >= 3 && left_ns(timer) > 0 && left_ns(timer) <= 10 * MS);
    CHECK(timer_delete(timer) == 0);
    ticks = 0;
    burn_ms(40);
    CHECK(ticks == 0);
    FAILS(timer_delete(timer), EINVAL);
}

/* One that was blocked comes once, with the number of those that it stands for. */
static void expiries_are_counted(void)
{
    timer_t timer = timer_on(CLOCK_THREAD_CPUTIME_ID, SIGEV_SIGNAL);
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, SIGPROF);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    set_timer(timer, 0, 5 * MS, 5 * MS);
    burn_ms(100);
    siginfo_t info;
    CHECK(sigwaitinfo(&set, &info) == SIGPROF && info.si_code == SI_TIMER && info.si_overrun >= 5);
    CHECK(timer_getoverrun(timer) == info.si_overrun);
    CHECK(timer_delete(timer) == 0);
    while (sigtimedwait(&set, &info, &(struct timespec){0, 0}) == SIGPROF) continue;
    CHECK(sigprocmask(SIG_UNBLOCK, &set, NULL) == 0);
}

/* Without a notice it only counts; an absolute time is one of the clock. */
static void silent_and_absolute(void)
{
    timer_t timer = timer_on(CLOCK_PROCESS_CPUTIME_ID, SIGEV_NONE);
    set_timer(timer, TIMER_ABSTIME, all_ns() + 30 * MS, 0);
    CHECK(left_ns(timer) > 0 && left_ns(timer) <= 30 * MS);
    burn_ms(60);
    CHECK(left_ns(timer) == 0);
    set_timer(timer, TIMER_ABSTIME, 1, 0);
    CHECK(left_ns(timer) == 0);
    CHECK(timer_delete(timer) == 0);
}

int main(void)
{
    struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGPROF, &action, NULL) == 0);
    threads_are_told_apart();
    a_timer_counts_on(CLOCK_THREAD_CPUTIME_ID, SIGEV_THREAD_ID);
    a_timer_counts_on(CLOCK_PROCESS_CPUTIME_ID, SIGEV_SIGNAL);
    expiries_are_counted();
    silent_and_absolute();
    done("cpu_clocks");
    return 0;
}
