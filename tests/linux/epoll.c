/* epoll: level, edge, one shot, timeouts, nesting, what is refused, what a closed descriptor does. */
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>

static int list;

static int control(int operation, int fd, unsigned events)
{
    struct epoll_event event = {.events = events, .data.fd = fd};
    return epoll_ctl(list, operation, fd, &event);
}

/* The events of one waiting, 0 for none. */
static unsigned look(int fd)
{
    struct epoll_event event;
    int count = epoll_wait(list, &event, 1, 0);
    CHECK(count >= 0);
    if (count == 0)
        return 0;
    CHECK(event.data.fd == fd);
    return event.events;
}

static void triggers(void)
{
    int ends[2];
    char text[8];
    CHECK(pipe(ends) == 0);
    CHECK(control(EPOLL_CTL_ADD, ends[0], EPOLLIN) == 0);
    CHECK(look(ends[0]) == 0);
    CHECK(write(ends[1], "ab", 2) == 2);
    CHECK(look(ends[0]) == EPOLLIN);
    CHECK(look(ends[0]) == EPOLLIN);
    CHECK(control(EPOLL_CTL_MOD, ends[0], EPOLLIN | EPOLLET) == 0);
    CHECK(look(ends[0]) == EPOLLIN);
    CHECK(look(ends[0]) == 0);
    CHECK(write(ends[1], "c", 1) == 1);
    CHECK(look(ends[0]) == EPOLLIN);
    CHECK(look(ends[0]) == 0);
    CHECK(control(EPOLL_CTL_MOD, ends[0], EPOLLIN | EPOLLONESHOT) == 0);
    CHECK(look(ends[0]) == EPOLLIN);
    CHECK(write(ends[1], "d", 1) == 1);
    CHECK(look(ends[0]) == 0);
    CHECK(control(EPOLL_CTL_MOD, ends[0], EPOLLIN) == 0);
    CHECK(look(ends[0]) == EPOLLIN);
    CHECK(read(ends[0], text, 8) == 4);
    CHECK(look(ends[0]) == 0);
    close(ends[1]);
    CHECK(look(ends[0]) == EPOLLHUP);
    close(ends[0]);
    CHECK(look(-1) == 0);
}

static void copies(void)
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    CHECK(control(EPOLL_CTL_ADD, ends[0], EPOLLIN) == 0);
    int copy = dup(ends[0]);
    int number = ends[0];
    close(ends[0]);
    CHECK(write(ends[1], "x", 1) == 1);
    CHECK(look(number) == EPOLLIN);
    close(copy);
    CHECK(look(-1) == 0);
    close(ends[1]);
}

static void refusals(void)
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    make_file("file", "");
    int file = open("file", O_RDONLY);
    FAILS(control(EPOLL_CTL_ADD, file, EPOLLIN), EPERM);
    FAILS(control(EPOLL_CTL_ADD, list, EPOLLIN), EINVAL);
    FAILS(control(EPOLL_CTL_MOD, ends[0], EPOLLIN), ENOENT);
    CHECK(control(EPOLL_CTL_ADD, ends[0], EPOLLIN) == 0);
    FAILS(control(EPOLL_CTL_ADD, ends[0], EPOLLIN), EEXIST);
    CHECK(control(EPOLL_CTL_DEL, ends[0], 0) == 0);
    FAILS(control(EPOLL_CTL_DEL, ends[0], 0), ENOENT);
    FAILS(control(EPOLL_CTL_ADD, 999, EPOLLIN), EBADF);
    struct epoll_event event;
    FAILS(epoll_wait(list, &event, 0, 0), EINVAL);
    FAILS(epoll_create1(1), EINVAL);
    close(file), close(ends[0]), close(ends[1]);
}

static void nesting(void)
{
    int inner = epoll_create1(0);
    int event = eventfd(0, EFD_NONBLOCK);
    struct epoll_event wish = {.events = EPOLLIN, .data.fd = event};
    CHECK(epoll_ctl(inner, EPOLL_CTL_ADD, event, &wish) == 0);
    CHECK(control(EPOLL_CTL_ADD, inner, EPOLLIN) == 0);
    FAILS(epoll_ctl(inner, EPOLL_CTL_ADD, list, &wish), ELOOP);
    CHECK(look(inner) == 0);
    CHECK(eventfd_write(event, 2) == 0);
    CHECK(look(inner) == EPOLLIN);
    eventfd_t value;
    CHECK(eventfd_read(event, &value) == 0 && value == 2);
    FAILS(eventfd_read(event, &value), EAGAIN);
    CHECK(look(inner) == 0);
    close(event), close(inner);
}

static long elapsed_ms(struct timespec *since)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - since->tv_sec) * 1000 + (now.tv_nsec - since->tv_nsec) / 1000000;
}

static void times(void)
{
    struct timespec start;
    struct epoll_event event;
    clock_gettime(CLOCK_MONOTONIC, &start);
    CHECK(epoll_wait(list, &event, 1, 30) == 0);
    CHECK(elapsed_ms(&start) >= 30);
    int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec spec = {{0, 10000000}, {0, 20000000}};
    clock_gettime(CLOCK_MONOTONIC, &start);
    CHECK(timerfd_settime(timer, 0, &spec, NULL) == 0);
    CHECK(control(EPOLL_CTL_ADD, timer, EPOLLIN) == 0);
    CHECK(epoll_wait(list, &event, 1, -1) == 1 && event.data.fd == timer);
    CHECK(elapsed_ms(&start) >= 20);
    usleep(30000);
    unsigned long long count = 0;
    CHECK(read(timer, &count, 8) == 8 && count >= 3);
    close(timer);
}

/* An event that cannot be written to the program is told again, also if it is told once only. */
static void events_that_are_not_got(void)
{
    struct epoll_event event;
    void *bad = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(bad != MAP_FAILED);
    unsigned how[] = {EPOLLIN, EPOLLIN | EPOLLET, EPOLLIN | EPOLLONESHOT};
    for (int i = 0; i < 3; i++) {
        int fd = eventfd(1, 0);
        CHECK(control(EPOLL_CTL_ADD, fd, how[i]) == 0);
        FAILS(epoll_wait(list, bad, 1, 0), EFAULT);
        FAILS(epoll_wait(list, bad, 8, -1), EFAULT);
        CHECK(epoll_wait(list, &event, 1, 0) == 1 && event.data.fd == fd && event.events == EPOLLIN);
        CHECK(epoll_wait(list, &event, 1, 0) == (i == 0));
        close(fd);
    }
    munmap(bad, 4096);
}

/* One thread waits while another one closes what is waited for: the last one that looks at a file lets go of it. */
static volatile int all_closed;

static void *wait_all_the_time(void *unused)
{
    struct epoll_event events[8];
    while (!all_closed)
        CHECK(epoll_wait(list, events, 8, 0) >= 0);
    return NULL;
}

static void closing_meanwhile(void)
{
    pthread_t waiter;
    CHECK(pthread_create(&waiter, NULL, wait_all_the_time, NULL) == 0);
    for (int i = 0; i < 3000; i++) {
        int ends[2], fd = eventfd(1, 0);
        CHECK(pipe(ends) == 0 && write(ends[1], "x", 1) == 1);
        CHECK(control(EPOLL_CTL_ADD, fd, EPOLLIN) == 0 && control(EPOLL_CTL_ADD, ends[0], EPOLLIN) == 0);
        close(fd), close(ends[0]), close(ends[1]);
    }
    all_closed = 1;
    CHECK(pthread_join(waiter, NULL) == 0);
}

/* Of two lists that wait exclusively one is told of an event, of an end both. */
struct sleeper {
    int list;
    pid_t process;
    volatile unsigned events;
};
static struct sleeper *sleepers;

static int woken(void)
{
    return (sleepers[0].events != 0) + (sleepers[1].events != 0);
}

static void sleep_once(struct sleeper *sleeper, int end)
{
    struct epoll_event event;
    close(end);
    CHECK(epoll_wait(sleeper->list, &event, 1, -1) == 1);
    sleeper->events = event.events;
    _exit(0);
}

/* Returns when the process was seen asleep several times in a row. */
static void wait_until_asleep(pid_t process)
{
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", process);
    for (int seen = 0; seen < 5; usleep(2000)) {
        int fd = open(path, O_RDONLY);
        CHECK(fd >= 0 && read(fd, text, sizeof text - 1) > 0);
        close(fd);
        seen = strstr(text, ") S ") ? seen + 1 : 0;
    }
}

static void exclusive_waits(unsigned first_event, int told)
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    for (int i = 0; i < 2; i++) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLEXCLUSIVE};
        sleepers[i] = (struct sleeper){.list = epoll_create1(0)};
        CHECK(epoll_ctl(sleepers[i].list, EPOLL_CTL_ADD, ends[0], &event) == 0);
        pid_t process = fork();
        if (process == 0)
            sleep_once(&sleepers[i], ends[1]);
        sleepers[i].process = process;
        wait_until_asleep(process);
    }
    if (first_event == EPOLLIN)
        CHECK(write(ends[1], "x", 1) == 1);
    else
        close(ends[1]);
    while (woken() < told)
        usleep(1000);
    usleep(20000);
    CHECK(woken() == told);
    /* The byte is still there, and the other list waits: the next event is its own. */
    if (told == 1)
        CHECK(write(ends[1], "y", 1) == 1);
    for (int i = 0; i < 2; i++) {
        int status;
        CHECK(waitpid(sleepers[i].process, &status, 0) == sleepers[i].process && status == 0);
        CHECK(sleepers[i].events == first_event);
        close(sleepers[i].list);
    }
    close(ends[0]);
    if (first_event == EPOLLIN)
        close(ends[1]);
}

static void exclusive(void)
{
    int fd = eventfd(0, 0), inner = epoll_create1(0);
    FAILS(control(EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT), EINVAL);
    FAILS(control(EPOLL_CTL_ADD, fd, EPOLLRDHUP | EPOLLEXCLUSIVE), EINVAL);
    FAILS(control(EPOLL_CTL_ADD, inner, EPOLLIN | EPOLLEXCLUSIVE), EINVAL);
    CHECK(control(EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLET | EPOLLEXCLUSIVE) == 0);
    FAILS(control(EPOLL_CTL_MOD, fd, EPOLLIN), EINVAL);
    CHECK(control(EPOLL_CTL_DEL, fd, 0) == 0 && control(EPOLL_CTL_ADD, fd, EPOLLIN) == 0);
    FAILS(control(EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLEXCLUSIVE), EINVAL);
    close(fd), close(inner);
    sleepers = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(sleepers != MAP_FAILED);
    exclusive_waits(EPOLLIN, 1);
    exclusive_waits(EPOLLHUP, 2);
}

int main(void)
{
    enter_directory();
    list = epoll_create1(EPOLL_CLOEXEC);
    CHECK(list >= 0);
    triggers();
    copies();
    refusals();
    nesting();
    times();
    events_that_are_not_got();
    closing_meanwhile();
    exclusive();
    puts("ok epoll");
    return 0;
}
