/* Names that change while others look: what open and stat find is always what some moment held, with its own contents. */
#include "check.h"
#include <dirent.h>
#include <pthread.h>
#include <sys/stat.h>

#define ROUNDS 400

static volatile int over;
static char folder[64];

static const char *at(char *into, const char *name) {
    sprintf(into, "%s/%s", folder, name);
    return into;
}

/* Each file says who it is. */
static void put(const char *path, char what, mode_t mode) {
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, mode);
    CHECK(fd >= 0 && write(fd, &what, 1) == 1 && close(fd) == 0);
}

/* "a" is always "1" or "2": replaced by renames, never missing. */
static void *looks_for_a(void *unused) {
    char path[128];
    at(path, "a");
    while (!over) {
        struct stat by_name, by_fd;
        CHECK(stat(path, &by_name) == 0 && S_ISREG(by_name.st_mode) && by_name.st_size == 1);
        int fd = open(path, O_RDONLY);
        CHECK(fd >= 0 && fstat(fd, &by_fd) == 0 && by_fd.st_size == 1);
        char what[2];
        CHECK(read(fd, what, 2) == 1 && (what[0] == '1' || what[0] == '2'));
        CHECK((by_fd.st_mode & 0777) == (what[0] == '1' ? 0601 : 0602));
        CHECK(lseek(fd, 0, SEEK_SET) == 0 && pread(fd, what + 1, 1, 0) == 1 && what[1] == what[0]);
        CHECK(close(fd) == 0);
    }
    return unused;
}

/* "b" comes and goes; what is open of it stays whole. */
static void *looks_for_b(void *unused) {
    char path[128];
    at(path, "b");
    while (!over) {
        struct stat status;
        int found = stat(path, &status);
        CHECK(found == 0 || errno == ENOENT);
        int fd = open(path, O_RDONLY);
        CHECK(fd >= 0 || errno == ENOENT);
        if (fd < 0) continue;
        char what = 0;
        ssize_t count = read(fd, &what, 1);
        CHECK(count == 0 || (count == 1 && what == 'b'));
        CHECK(fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink <= 1);
        CHECK(close(fd) == 0);
    }
    return unused;
}

/* "d/c" lies in one of two directories that exchange their names. */
static void *looks_through_directories(void *unused) {
    char path[128];
    at(path, "d/c");
    while (!over) {
        struct stat status;
        CHECK(stat(path, &status) == 0 || errno == ENOENT);
        int fd = open(path, O_RDONLY);
        CHECK(fd >= 0 || errno == ENOENT);
        if (fd >= 0) {
            char what = 0;
            CHECK(read(fd, &what, 1) == 1 && (what == 'x' || what == 'y') && close(fd) == 0);
        }
    }
    return unused;
}

static void change(void) {
    char a[128], fresh[128], b[128], d[128], e[128], f[128];
    at(a, "a"), at(fresh, "fresh"), at(b, "b"), at(d, "d"), at(e, "e"), at(f, "f");
    for (int round = 0; round < ROUNDS; round++) {
        put(fresh, round & 1 ? '1' : '2', round & 1 ? 0601 : 0602);
        CHECK(rename(fresh, a) == 0);
        put(b, 'b', 0600);
        CHECK(unlink(b) == 0);
        struct stat status;
        FAILS(stat(b, &status), ENOENT);
        FAILS(open(b, O_RDONLY), ENOENT);
        CHECK(rename(d, f) == 0 && rename(e, d) == 0 && rename(f, e) == 0);
    }
}

/* An earlier target of a name does not count, also after a lookup. */
static void one_after_the_other(void) {
    char path[128], other[128];
    struct stat status;
    at(path, "n"), at(other, "m");
    for (int round = 0; round < 50; round++) {
        FAILS(stat(path, &status), ENOENT);
        put(path, 'n', 0640);
        CHECK(stat(path, &status) == 0 && status.st_size == 1 && (status.st_mode & 0777) == 0640);
        CHECK(chmod(path, 0600) == 0 && stat(path, &status) == 0 && (status.st_mode & 0777) == 0600);
        CHECK(truncate(path, 100) == 0 && stat(path, &status) == 0 && status.st_size == 100);
        CHECK(link(path, other) == 0 && stat(other, &status) == 0 && status.st_nlink == 2);
        CHECK(unlink(path) == 0);
        FAILS(open(path, O_RDONLY), ENOENT);
        CHECK(mkdir(path, 0700) == 0 && stat(path, &status) == 0 && S_ISDIR(status.st_mode));
        FAILS(open(path, O_WRONLY), EISDIR);
        CHECK(rmdir(path) == 0 && symlink("m", path) == 0);
        CHECK(lstat(path, &status) == 0 && S_ISLNK(status.st_mode) && stat(path, &status) == 0 && S_ISREG(status.st_mode));
        FAILS(open(path, O_RDONLY | O_NOFOLLOW), ELOOP);
        CHECK(unlink(path) == 0 && unlink(other) == 0);
    }
    /* Rights of a directory count at once, for each who asks. */
    char inside[128];
    at(path, "p"), at(inside, "p/q");
    CHECK(mkdir(path, 0755) == 0);
    put(inside, 'q', 0644);
    CHECK(stat(inside, &status) == 0);
    pid_t child = fork();
    if (child == 0) {
        CHECK(setgid(1000) == 0 && setuid(1000) == 0);
        CHECK(stat(inside, &status) == 0 && access(inside, R_OK) == 0);
        FAILS(access(inside, W_OK), EACCES);
        FAILS(open(inside, O_RDWR), EACCES);
        _exit(0);
    }
    CHECK(status_of(child) == 0 && chmod(path, 0700) == 0);
    child = fork();
    if (child == 0) {
        CHECK(setgid(1000) == 0 && setuid(1000) == 0);
        FAILS(stat(inside, &status), EACCES);
        FAILS(open(inside, O_RDONLY), EACCES);
        FAILS(access(inside, F_OK), EACCES);
        _exit(0);
    }
    CHECK(status_of(child) == 0 && unlink(inside) == 0 && rmdir(path) == 0);
    FAILS(stat("/dev/null/x", &status), ENOTDIR);
    FAILS(stat("/proc/self/exe/", &status), ENOTDIR);
    CHECK(stat("//dev/./null", &status) == 0 && S_ISCHR(status.st_mode));
    CHECK(stat("/dev/..", &status) == 0 && S_ISDIR(status.st_mode));
}

static void in(const char *where) {
    char path[128];
    sprintf(folder, "%s/name-races-%d", where, getpid());
    CHECK(mkdir(folder, 0755) == 0);
    one_after_the_other();
    over = 0;
    put(at(path, "a"), '1', 0601);
    CHECK(mkdir(at(path, "d"), 0755) == 0 && mkdir(at(path, "e"), 0755) == 0);
    put(at(path, "d/c"), 'x', 0600);
    put(at(path, "e/c"), 'y', 0600);
    pthread_t threads[3];
    void *(*looks[])(void *) = {looks_for_a, looks_for_b, looks_through_directories};
    for (int i = 0; i < 3; i++) CHECK(pthread_create(&threads[i], NULL, looks[i], NULL) == 0);
    change();
    over = 1;
    for (int i = 0; i < 3; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(unlink(at(path, "a")) == 0 && unlink(at(path, "d/c")) == 0 && unlink(at(path, "e/c")) == 0);
    CHECK(rmdir(at(path, "d")) == 0 && rmdir(at(path, "e")) == 0 && rmdir(folder) == 0);
}

int main(void) {
    umask(0);
    in("/tmp");
    in("/dev/shm");
    if (access("/opt", W_OK) == 0) in("/opt");
    done("name_races");
    return 0;
}
