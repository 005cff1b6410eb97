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

/* A script may change while it runs, its interpreter may not; neither runs while it is open for writing. */
static void scripts(void) {
    char head[128], here[100];
    int end;
    CHECK(getcwd(here, sizeof here) != NULL);
    snprintf(head, sizeof head, "#!%s/interpreter stay\n", here);
    copy("interpreter");
    int fd = open("script", O_WRONLY | O_CREAT | O_TRUNC, 0755);
    CHECK(fd >= 0 && write(fd, head, strlen(head)) == (ssize_t)strlen(head));
    CHECK(run_status("./script") == ETXTBSY && close(fd) == 0);
    fd = open("interpreter", O_RDWR);
    CHECK(fd >= 0 && run_status("./script") == ETXTBSY && close(fd) == 0);
    pid_t child = start("./script", &end);
    fd = open("script", O_WRONLY | O_TRUNC);
    CHECK(fd >= 0 && close(fd) == 0);
    FAILS(open("interpreter", O_WRONLY), ETXTBSY);
    FAILS(truncate("interpreter", 0), ETXTBSY);
    CHECK(close(end) == 0 && status_of(child) == 0 && truncate("interpreter", 0) == 0);
}

/* A file that is only mapped, as libraries are, may be written to; one that is mapped for writing does not run, though its descriptor is closed. */
static void what_is_mapped(void) {
    copy("library");
    int fd = open("library", O_RDONLY);
    char *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    CHECK(code != MAP_FAILED && close(fd) == 0);
    fd = open("library", O_RDWR);
    char *data = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(fd >= 0 && data != MAP_FAILED && close(fd) == 0);
    CHECK(run_status("./library") == ETXTBSY);
    CHECK(munmap(data, 4096) == 0 && run_status("./library") == 0 && munmap(code, 4096) == 0);
}

/* A file without a name that runs cannot be opened for writing; who has it open already goes on. */
static void what_has_no_name(void) {
    char path[64];
    int end, fd = memfd_create("program", 0);
    CHECK(fd >= 0);
    copy_to(fd);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", getpid(), fd);
    pid_t child = start(path, &end);
    FAILS(open(path, O_WRONLY), ETXTBSY);
    FAILS(truncate(path, 0), ETXTBSY);
    CHECK(close(end) == 0 && status_of(child) == 0);
    int other = open(path, O_WRONLY);
    CHECK(other >= 0 && run_status(path) == ETXTBSY && close(other) == 0 && close(fd) == 0);
}

/* In a folder of the disk, or of memory. */
static void on(const char *folder) {
    CHECK(mkdir(folder, 0777) == 0 || errno == EEXIST);
    CHECK(chdir(folder) == 0);
    what_runs_is_not_written_to();
    what_is_written_to_does_not_run();
    scripts();
    what_is_mapped();
    what_has_no_name();
    const char *names[] = {"program", "other-name", "renamed", "interpreter", "script", "library"};
    for (int at = 0; at < 6; at++) unlink(names[at]);
}

int main(int count, char **words) {
    if (count > 1) return strcmp(words[1], "stay") == 0 ? stay() : 0;
    mkdir("/var/tmp", 01777);
    on("/var/tmp/running-files");
    on("/dev/shm/running-files");
    done("running_files");
    return 0;
}
