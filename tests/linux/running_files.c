/* A file that a program runs from cannot be written to, and one that is open for writing cannot be run (ETXTBSY in open(2), truncate(2),
 * execve(2)): the file of a running program cannot change. */
#include "check.h"
#include <sys/mman.h>
#include <sys/stat.h>

static void copy_to(int to) {
    char bytes[65536];
    int from = open("/proc/self/exe", O_RDONLY);
    ssize_t count;
    CHECK(from >= 0);
    while ((count = read(from, bytes, sizeof bytes)) > 0) CHECK(write(to, bytes, count) == count);
    CHECK(count == 0 && close(from) == 0);
}

static void copy(const char *name) {
    int to = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0755);
    CHECK(to >= 0);
    copy_to(to);
    CHECK(close(to) == 0);
}

/* Runs a file until the pipe is closed; answers once the program is there. */
static pid_t start(const char *name, int *end) {
    int go[2], there[2];
    char byte;
    CHECK(pipe(go) == 0 && pipe(there) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        dup2(go[0], 0), dup2(there[1], 1);
        close(go[0]), close(go[1]), close(there[0]), close(there[1]);
        execl(name, name, "stay", NULL);
        _exit(errno);
    }
    close(go[0]), close(there[1]);
    CHECK(read(there[0], &byte, 1) == 1 && close(there[0]) == 0);
    *end = go[1];
    return child;
}

static int stay(void) {
    char byte;
    CHECK(write(1, "x", 1) == 1);
    /* A child has the same program. */
    if (fork() == 0) return read(0, &byte, 1) != 0;
    int code = read(0, &byte, 1) != 0;
    return wait(NULL) < 0 || code;
}

static int run_status(const char *name) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        execl(name, name, "nothing", NULL);
        _exit(errno);
    }
    return WEXITSTATUS(status_of(child));
}

static void what_runs_is_not_written_to(void) {
    int end;
    copy("program");
    CHECK(link("program", "other-name") == 0);
    pid_t child = start("./program", &end);
    FAILS(open("program", O_WRONLY), ETXTBSY);
    FAILS(open("other-name", O_RDWR), ETXTBSY);
    FAILS(open("program", O_RDONLY | O_TRUNC), ETXTBSY);
    FAILS(open("program", O_WRONLY | O_CREAT | O_TRUNC, 0755), ETXTBSY);
    FAILS(truncate("program", 0), ETXTBSY);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/exe", child);
    FAILS(truncate(path, 0), ETXTBSY);
    FAILS(open("/proc/self/exe", O_WRONLY), ETXTBSY);
    /* Its name and its rights are another matter. */
    CHECK(chmod("program", 0700) == 0 && rename("program", "renamed") == 0);
    int fd = open("renamed", O_RDONLY);
    CHECK(fd >= 0 && close(fd) == 0);
    CHECK(run_status("./renamed") == 0);
    FAILS(open("renamed", O_WRONLY), ETXTBSY);
    CHECK(close(end) == 0 && status_of(child) == 0);
    fd = open("renamed", O_WRONLY);
    CHECK(fd >= 0 && close(fd) == 0);
}

static void what_is_written_to_does_not_run(void) {
    copy("program");
    int fd = open("program", O_WRONLY | O_APPEND);
    CHECK(fd >= 0 && run_status("./program") == ETXTBSY);
    int again = dup(fd);
    CHECK(close(fd) == 0 && run_status("./program") == ETXTBSY);
    CHECK(close(again) == 0 && run_status("./program") == 0);
    /* A file without a name in memory is run by who writes it. */
    fd = memfd_create("program", 0);
    CHECK(fd >= 0);
    copy_to(fd);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    CHECK(run_status(path) == 0);
}

int main(int count, char **words) {
    if (count > 1) return strcmp(words[1], "stay") == 0 ? stay() : 0;
    enter_directory();
    what_runs_is_not_written_to();
    what_is_written_to_does_not_run();
    done("running_files");
    return 0;
}
