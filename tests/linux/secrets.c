/* The files of /proc/PID that tell what a process may keep from others: the right to look is asked for at the opening, and they stay those of the
 * program that ran then; links and descriptors are asked for at each look; those of a process that does not show itself are root's (proc(5)).
 * Other users are tried if it runs as root. */
#include "check.h"
#include <dirent.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#define USER 1234
#define OTHER 4321

static const char *texts[] = {"environ", "auxv", "maps", "smaps", "smaps_rollup", "mem", "io"};
enum { ENVIRON, AUXV, MAPS, SMAPS, ROLLUP, MEM, IO, TEXTS };
static const char *links[] = {"exe", "cwd", "root", "ns/pid", "fd/0"};
static long mark = 41;
static volatile int *shared;

static char *path_of(pid_t process, const char *name) {
    static char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", process, name);
    return path;
}

static void until(int step) {
    while (*shared < step) sleep_ms(1);
}

static void become(int user, int shows_itself) {
    CHECK(setgid(user) == 0 && setuid(user) == 0);
    if (shows_itself) CHECK(prctl(PR_SET_DUMPABLE, 1) == 0);
}

/* A child that has become a user, and waits to be killed. */
static pid_t child_of(int user, int shows_itself) {
    *shared = 0;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        become(user, shows_itself);
        *shared = 1;
        while (1) sleep_ms(5);
    }
    until(1);
    return child;
}

static void end(pid_t child) { CHECK(kill(child, SIGKILL) == 0 && status_of(child) == SIGKILL); }

/* Does something as another user. */
#define AS(user, ...)                     \
    do {                                  \
        pid_t looker_ = fork();           \
        CHECK(looker_ >= 0);              \
        if (looker_ == 0) {               \
            become(user, 1);              \
            __VA_ARGS__;                  \
            _exit(0);                     \
        }                                 \
        CHECK(status_of(looker_) == 0);   \
    } while (0)

static long read_text(int which, int file, void *into, size_t bytes) {
    return pread(file, into, which == MEM ? sizeof mark : bytes, which == MEM ? (off_t)&mark : 0);
}

/* ---- files that were opened before */

static void open_all(pid_t process, int *files) {
    static char text[4096];
    for (int i = 0; i < TEXTS; i++) {
        files[i] = open(path_of(process, texts[i]), O_RDONLY);
        CHECK(files[i] >= 0 && read_text(i, files[i], text, sizeof text) > 0);
    }
}

static void tell_nothing(const int *files) {
    char text[4096];
    CHECK(read_text(ENVIRON, files[ENVIRON], text, sizeof text) == 0);
    CHECK(read_text(MAPS, files[MAPS], text, sizeof text) == 0);
    CHECK(read_text(SMAPS, files[SMAPS], text, sizeof text) == 0);
    FAILS(read_text(ROLLUP, files[ROLLUP], text, sizeof text), ESRCH);
    CHECK(read_text(MEM, files[MEM], text, sizeof text) == 0);
}

static void close_all(const int *files) {
    for (int i = 0; i < TEXTS; i++) CHECK(close(files[i]) == 0);
}

static void files_stay_those_of_their_program(void) {
    *shared = 0;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        until(1);
        execl("/proc/self/exe", "secrets", "wait", NULL);
        _exit(1);
    }
    int files[TEXTS];
    char before[1024], after[1024];
    open_all(child, files);
    long length = read_text(AUXV, files[AUXV], before, sizeof before);
    CHECK(length > 0);
    FAILS(sendfile(1, files[MAPS], NULL, 4096), EINVAL);
    *shared = 1;
    /* The new program has another name. */
    for (char name[32] = ""; strncmp(name, "exe", 3) != 0; sleep_ms(1)) {
        int file = open(path_of(child, "comm"), O_RDONLY);
        CHECK(file >= 0 && read(file, name, sizeof name) > 0 && close(file) == 0);
    }
    tell_nothing(files);
    CHECK(read_text(AUXV, files[AUXV], after, sizeof after) == length && memcmp(before, after, length) == 0);
    CHECK(read_text(IO, files[IO], after, sizeof after) > 0);
    close_all(files);
    open_all(child, files);
    CHECK(read_text(AUXV, files[AUXV], after, sizeof after) > 0 && memcmp(before, after, length) != 0);
    end(child);
    CHECK(read_text(ENVIRON, files[ENVIRON], after, sizeof after) == 0 && read_text(MEM, files[MEM], after, sizeof after) == 0);
    FAILS(read_text(MAPS, files[MAPS], after, sizeof after), ESRCH);
    FAILS(read_text(SMAPS, files[SMAPS], after, sizeof after), ESRCH);
    FAILS(read_text(ROLLUP, files[ROLLUP], after, sizeof after), ESRCH);
    FAILS(read_text(IO, files[IO], after, sizeof after), ESRCH);
    close_all(files);
    done("secrets: former programs");
}

static void one_that_has_ended_has_none(void) {
    if (getuid() != 0) return;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) _exit(0);
    siginfo_t info;
    CHECK(waitid(P_PID, child, &info, WEXITED | WNOWAIT) == 0);
    char text[4096];
    for (int i = 0; i < IO; i++) {
        int file = open(path_of(child, texts[i]), O_RDONLY);
        if (file < 0) {
            CHECK(errno == ESRCH && i != MAPS && i != SMAPS);
            continue;
        }
        /* Older ones than Linux 6.16 open more of them. */
        CHECK(i != ROLLUP && read_text(i, file, text, sizeof text) == 0 && close(file) == 0);
    }
    for (int i = 0; i < 5; i++)
        if (i != 3) FAILS(readlink(path_of(child, links[i]), text, sizeof text), ENOENT);
    struct stat seen;
    CHECK(stat(path_of(child, "environ"), &seen) == 0 && seen.st_uid == 0);
    CHECK(status_of(child) == 0);
    done("secrets: ended ones");
}

static void copy_self(const char *to, int mode) {
    static char bytes[1 << 16];
    int from = open("/proc/self/exe", O_RDONLY), file = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0700);
    CHECK(from >= 0 && file >= 0);
    for (long count; (count = read(from, bytes, sizeof bytes)) > 0;) CHECK(write(file, bytes, count) == count);
    CHECK(close(from) == 0 && close(file) == 0 && chmod(to, mode) == 0);
}

/* A user opens the files of its own process, which then runs a program with more rights. */
static void a_raised_program_is_not_seen_by_files_opened_before(void) {
    if (getuid() != 0) return;
    const char *raised = "/tmp/secrets-raised";
    copy_self(raised, 04755);
    AS(USER, {
        int files[TEXTS], word[2];
        char text[4096];
        CHECK(pipe(word) == 0);
        *shared = 0;
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            until(1);
            dup2(word[1], 1);
            execl(raised, raised, "tell", NULL);
            _exit(1);
        }
        open_all(child, files);
        *shared = 1;
        CHECK(read(word[0], text, 1) == 1 && text[0] == 'r');
        tell_nothing(files);
        FAILS(read_text(IO, files[IO], text, sizeof text), EACCES);
        for (int i = 0; i < TEXTS; i++) FAILS(open(path_of(child, texts[i]), O_RDONLY), EACCES);
        for (int i = 0; i < 5; i++) FAILS(readlink(path_of(child, links[i]), text, sizeof text), EACCES);
        close_all(files);
        /* It sends its signals as its real user. */
        CHECK(kill(child, SIGKILL) == 0 || errno == EPERM);
    });
    CHECK(unlink(raised) == 0);
    done("secrets: raised programs");
}

/* ---- links and descriptors */

static void links_are_seen(pid_t process) {
    char text[4096];
    struct stat seen;
    for (int i = 0; i < 5; i++) {
        char *path = path_of(process, links[i]);
        CHECK(readlink(path, text, sizeof text) > 0);
        /* Where a name space leads to cannot be opened everywhere. */
        if (i != 3) CHECK(stat(path, &seen) == 0 && access(path, F_OK) == 0);
    }
    for (int i = 0; i < 2; i++) {
        DIR *folder = opendir(path_of(process, i ? "fd" : "fdinfo"));
        CHECK(folder != NULL);
        int entries = 0;
        for (struct dirent *entry; (entry = readdir(folder)) != NULL;) entries += entry->d_name[0] != '.';
        CHECK(entries >= 3 && closedir(folder) == 0);
        CHECK(access(path_of(process, i ? "fd" : "fdinfo"), R_OK | X_OK) == 0);
    }
    int file = open(path_of(process, "fdinfo/0"), O_RDONLY);
    CHECK(file >= 0 && read(file, text, sizeof text) > 0 && close(file) == 0);
}

static void links_are_refused(pid_t process) {
    char text[4096];
    struct stat seen;
    for (int i = 0; i < 5; i++) {
        char *path = path_of(process, links[i]);
        FAILS(readlink(path, text, sizeof text), EACCES);
        FAILS(stat(path, &seen), EACCES);
        FAILS(open(path, O_RDONLY), EACCES);
        FAILS(access(path, F_OK), EACCES);
        int name = open(path, O_PATH | O_NOFOLLOW);
        CHECK((name < 0) == (i == 4));
        if (name < 0) continue;
        FAILS(readlinkat(name, "", text, sizeof text), EACCES);
        CHECK(close(name) == 0);
    }
    FAILS(stat(path_of(process, "cwd/."), &seen), EACCES);
    FAILS(open(path_of(process, "fd"), O_RDONLY | O_DIRECTORY), EACCES);
    FAILS(access(path_of(process, "fd"), R_OK), EACCES);
    FAILS(open(path_of(process, "fdinfo/0"), O_RDONLY), EACCES);
    FAILS(chdir(path_of(process, "fd")), EACCES);
}

static void texts_are_refused(pid_t process) {
    for (int i = 0; i < TEXTS; i++) FAILS(open(path_of(process, texts[i]), O_RDONLY), EACCES);
    char text[4096];
    int file = open(path_of(process, "status"), O_RDONLY);
    CHECK(file >= 0 && read(file, text, sizeof text) > 0 && close(file) == 0);
}

static void owned_by(pid_t process, const char *name, uid_t user) {
    struct stat seen;
    CHECK(lstat(path_of(process, name), &seen) == 0);
    if (seen.st_uid != user || seen.st_gid != user) dprintf(1, "%s is of %d:%d, not %d\n", name, seen.st_uid, seen.st_gid, user);
    CHECK(seen.st_uid == user && seen.st_gid == user);
}

static void files_of_a_hidden_process_are_roots(void) {
    if (getuid() != 0) return;
    static const char *own[] = {"environ", "maps", "mem", "io", "stat", "status", "exe", "cwd", "fd", "fd/0", "ns", "comm", "oom_score_adj"};
    static const char *open_to_all[] = {"", "task", "fdinfo", "net"};
    for (int shows_itself = 0; shows_itself < 2; shows_itself++) {
        pid_t child = child_of(USER, shows_itself);
        for (int i = 0; i < 13; i++) owned_by(child, own[i], shows_itself ? USER : 0);
        for (int i = 0; i < 4; i++) owned_by(child, open_to_all[i], USER);
        end(child);
    }
    done("secrets: owners");
}

static void only_those_see_links_who_may_look(void) {
    links_are_seen(getpid());
    if (getuid() != 0) return;
    for (int shows_itself = 0; shows_itself < 2; shows_itself++) {
        pid_t child = child_of(USER, shows_itself);
        links_are_seen(child);
        AS(OTHER, links_are_refused(child); texts_are_refused(child));
        if (shows_itself)
            AS(USER, links_are_seen(child); int files[TEXTS]; open_all(child, files));
        else
            AS(USER, links_are_refused(child); texts_are_refused(child));
        end(child);
    }
    done("secrets: links");
}

/* It sees its own, but for files that are root's and closed. */
static void a_hidden_process_sees_itself(void) {
    if (getuid() != 0) return;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        become(USER, 0);
        links_are_seen(getpid());
        char text[4096];
        CHECK(chdir("/proc/self/fd") == 0 && readlink("0", text, sizeof text) > 0);
        char name[64];
        snprintf(name, sizeof name, "/proc/self/task/%d/comm", getpid());
        int comm = open(name, O_RDWR);
        CHECK(comm >= 0 && write(comm, "hidden", 6) == 6);
        FAILS(open("/proc/self/environ", O_RDONLY), EACCES);
        FAILS(open("/proc/self/io", O_RDONLY), EACCES);
        int file = open("/proc/self/maps", O_RDONLY);
        CHECK(file >= 0 && read(file, text, sizeof text) > 0);
        _exit(0);
    }
    CHECK(status_of(child) == 0);
    done("secrets: oneself");
}

/* A directory that was opened by somebody with the right does not give it away. */
static void an_open_directory_gives_no_right(void) {
    if (getuid() != 0) return;
    pid_t child = child_of(USER, 0);
    int descriptors = open(path_of(child, "fd"), O_RDONLY | O_DIRECTORY), infos = open(path_of(child, "fdinfo"), O_RDONLY | O_DIRECTORY);
    CHECK(descriptors >= 0 && infos >= 0);
    AS(USER, {
        char text[4096];
        FAILS(readlinkat(descriptors, "0", text, sizeof text), EACCES);
        FAILS(openat(descriptors, "0", O_RDONLY), EACCES);
        FAILS(openat(infos, "0", O_RDONLY), EACCES);
    });
    CHECK(close(descriptors) == 0 && close(infos) == 0);
    end(child);
    done("secrets: open directories");
}

int main(int count, char **words) {
    if (count > 1 && strcmp(words[1], "tell") == 0) {
        /* Only if it was raised. */
        if (geteuid() != 0 || write(1, "r", 1) != 1) _exit(1);
        alarm(20);
        pause();
    }
    if (count > 1)
        while (1) sleep_ms(5);
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    files_stay_those_of_their_program();
    one_that_has_ended_has_none();
    a_raised_program_is_not_seen_by_files_opened_before();
    files_of_a_hidden_process_are_roots();
    only_those_see_links_who_may_look();
    a_hidden_process_sees_itself();
    an_open_directory_gives_no_right();
    done("secrets");
    return 0;
}
