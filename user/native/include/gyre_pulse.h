/* Schedulers of a program's own for C (crate gyre-pulse; link libgyre_pulse_c.a). A program that uses them runs on Linux, too, by signals.
 *
 * A program gives a scheduler to gyre_pulse_run; it is asked at five moments which thread a virtual core runs next. It is asked with ticks masked,
 * on a stack of its own; it takes no memory, does not wait and returns soon. It holds the threads that do not run, one gyre_pulse_held for each.
 *
 * Threads may move between virtual cores at any instruction: they keep no address of a _Thread_local variable, and call what locks or takes memory
 * (printf, malloc) between gyre_pulse_mask and gyre_pulse_unmask. A call of the kernel that waits keeps its virtual core waiting.
 *
 * Functions answer 0, or a negative errno: EINVAL (a number that cannot be), EPERM (the caller is no thread of a scheduler), EBUSY (the number of
 * virtual cores is being changed), EAGAIN (too many threads), or the kernel's. */
#ifndef GYRE_PULSE_H
#define GYRE_PULSE_H

#include <stdint.h>

/* The most threads at a time. */
#define GYRE_PULSE_THREADS_MAX 1024

/* A thread that does not run. Its holder decides when it goes on; there is one for each. */
typedef struct gyre_pulse_thread *gyre_pulse_held;

struct gyre_pulse_scheduler {
    void *own; /* given to each function */
    /* A thread is new, or goes on after it was blocked. */
    void (*ready)(void *own, unsigned core, gyre_pulse_held held);
    /* A virtual core has nothing to run; NULL leaves it idle until a thread is ready. */
    gyre_pulse_held (*enter)(void *own, unsigned core);
    /* A tick has come while that one ran. */
    gyre_pulse_held (*tick)(void *own, unsigned core, gyre_pulse_held running);
    /* The thread that ran gives its core up. */
    gyre_pulse_held (*yielded)(void *own, unsigned core, gyre_pulse_held running);
    /* The thread that ran has ended, or is blocked. NULL: as enter. */
    gyre_pulse_held (*done)(void *own, unsigned core);
    /* The virtual cores from `after` on ask for nothing from now on. May be NULL. */
    void (*adapt)(void *own, unsigned before, unsigned after);
};

/* The number of virtual cores follows nothing but gyre_pulse_resize; or, besides, the processors that the program may use, as its control group
 * says while it runs (cpu.max, cpuset.cpus.effective). Then adapt is called at each change. */
#define GYRE_PULSE_NOTHING 0
#define GYRE_PULSE_SHARE 1

struct gyre_pulse_options {
    uint32_t cores;    /* virtual cores, 1 to 64; the most if their number follows something */
    uint32_t signals;  /* not 0: ticks by signals on Gyre, too */
    uint64_t tick_ns;  /* time between ticks, 50 us to 10 s; 0 for none */
    uint64_t limit_ns; /* for how long ticks may be masked before SIGXCPU ends the program, up to a minute; 0: a second */
    uint32_t follows;  /* GYRE_PULSE_NOTHING or GYRE_PULSE_SHARE: what their number follows */
    uint32_t unused;   /* 0 */
};

struct gyre_pulse_report {
    uint64_t ticks;  /* for which the scheduler was called */
    uint64_t missed; /* ticks that were left out */
};

/* Runs first(argument) as the first thread, and returns when all threads have ended. The scheduler lives until then; the report may be NULL. */
int gyre_pulse_run(const struct gyre_pulse_scheduler *scheduler, const struct gyre_pulse_options *options, void (*first)(void *), void *argument,
                   struct gyre_pulse_report *report);

/* Starts a thread that must be done at a time of gyre_pulse_now; UINT64_MAX for no such time. */
int gyre_pulse_spawn(void (*work)(void *), void *argument, uint64_t due_ns);
/* Gives the virtual core to others. */
void gyre_pulse_yield(void);
/* Sleeps until a time of gyre_pulse_now; the next tick or turn after it wakes the thread. */
int gyre_pulse_sleep_until(uint64_t until_ns);
int gyre_pulse_set_deadline(uint64_t due_ns);
/* Uses so many virtual cores, up to those of the options. */
int gyre_pulse_resize(unsigned cores);
/* Time of the machine's monotonic clock, ns. */
uint64_t gyre_pulse_now(void);

/* Ticks wait from here on, until as many times unmasked; the limit of the options holds. */
void gyre_pulse_mask(void);
void gyre_pulse_unmask(void);

/* Of a thread that the scheduler holds: its deadline (also by those who wait for a mutex of it), the time of its last run, and of all. */
uint64_t gyre_pulse_deadline(gyre_pulse_held held);
uint64_t gyre_pulse_last_run(gyre_pulse_held held);
uint64_t gyre_pulse_run_time(gyre_pulse_held held);

/* A mutex whose holder inherits the earliest deadline of those who wait; NULL without memory. Only its holder unlocks it. */
typedef struct gyre_pulse_mutex gyre_pulse_mutex;
gyre_pulse_mutex *gyre_pulse_mutex_new(void);
void gyre_pulse_mutex_free(gyre_pulse_mutex *mutex);
int gyre_pulse_lock(gyre_pulse_mutex *mutex);
int gyre_pulse_unlock(gyre_pulse_mutex *mutex);

/* Kernel threads that name the next to run. A gate is the place at which one waits for its turn; `word` is shared by all of them, and each has a
 * number of its own there: the word is whose turn it is on Linux. gyre_pulse_pass takes the next one's kernel number (gyre_pulse_own_id of it)
 * and its number at the word. */
struct gyre_pulse_gate {
    uint32_t *word;
    uint32_t own;
};
int32_t gyre_pulse_own_id(void);
int gyre_pulse_wait_turn(const struct gyre_pulse_gate *gate);
int gyre_pulse_pass(const struct gyre_pulse_gate *gate, int32_t thread, uint32_t turn);

#endif
