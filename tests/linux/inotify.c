/* File system events: names made, removed and moved, contents and attributes changed, limits of the queue. */
#include "check.h"
#include <poll.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

static int in;

/* The next event; its name is "" if there is none. */
static struct inotify_event *next(void) {
    static char buffer[8192];
    static int at, end;
    if (at == end) {
        end = read(in, buffer, sizeof buffer);
        if (end < 0) {
            end = at = 0;
            return NULL;
        }
        at = 0;
    }
    struct inotify_event *event = (struct inotify_event *)(buffer + at);
    at += sizeof *event + event->len;
    CHECK(at <= end && event->len % 16 == 0);
    return event;
}

static uint32_t expect_cookie(int watch, uint32_t mask, const char *name) {
    struct inotify_event *event = next();
    if (!event) dprintf(1, "no event, wanted %#x %s\n", mask, name);
    CHECK(event != NULL);
    const char *own = event->len ? event->name : "";
    if (event->wd != watch || event->mask != mask || strcmp(own, name))
        dprintf(1, "got %d %#x '%s', wanted %d %#x '%s'\n", event->wd, event->mask, own, watch, mask, name);
    CHECK(event->wd == watch && event->mask == mask && !strcmp(own, name));
    return event->cookie;
}

static void expect(int watch, uint32_t mask, const char *name) { CHECK(expect_cookie(watch, mask, name) == 0); }
static void nothing(void) { FAILS(read(in, (char[512]){0}, 512), EAGAIN); }

static void contents(void) {
    int folder = inotify_add_watch(in, ".", IN_ALL_EVENTS);
    CHECK(folder > 0);
    int fd = open("file", O_CREAT | O_WRONLY, 0644);
    expect(folder, IN_CREATE, "file");
    expect(folder, IN_OPEN, "file");
    struct pollfd ready = {.fd = in, .events = POLLIN};
    CHECK(poll(&ready, 1, 0) == 0);
    CHECK(write(fd, "x", 1) == 1 && write(fd, "y", 1) == 1);
    int bytes = 0;
    CHECK(poll(&ready, 1, 0) == 1 && ioctl(in, FIONREAD, &bytes) == 0 && bytes == 32);
    expect(folder, IN_MODIFY, "file"); /* two that are alike are one */
    nothing();
    CHECK(fchmod(fd, 0600) == 0);
    expect(folder, IN_ATTRIB, "file");
    close(fd);
    expect(folder, IN_CLOSE_WRITE, "file");
    fd = open("file", O_RDWR | O_TRUNC);
    /* Linux 6.1 tells of the truncation first, later ones of the opening. */
    uint32_t both = next()->mask;
    CHECK((both |= next()->mask) == (IN_MODIFY | IN_OPEN));
    CHECK(ftruncate(fd, 100) == 0);
    expect(folder, IN_MODIFY, "file");
    CHECK(read(fd, (char[4]){0}, 4) == 4);
    expect(folder, IN_ACCESS, "file");
    close(fd);
    expect(folder, IN_CLOSE_WRITE, "file");
    fd = open("file", O_RDONLY);
    close(fd);
    expect(folder, IN_OPEN, "file");
    expect(folder, IN_CLOSE_NOWRITE, "file");
    CHECK(chmod("file", 0640) == 0);
    expect(folder, IN_ATTRIB, "file");
    CHECK(truncate("file", 5) == 0);
    expect(folder, IN_MODIFY, "file");
    CHECK(mkdir("sub", 0755) == 0);
    expect(folder, IN_CREATE | IN_ISDIR, "sub");
    CHECK(symlink("file", "link") == 0);
    expect(folder, IN_CREATE, "link");
    CHECK(link("file", "second") == 0);
    expect(folder, IN_CREATE, "second");
    CHECK(unlink("second") == 0 && unlink("link") == 0);
    expect(folder, IN_DELETE, "second");
    expect(folder, IN_DELETE, "link");
    nothing();
    CHECK(inotify_rm_watch(in, folder) == 0);
    expect(folder, IN_IGNORED, "");
    FAILS(inotify_rm_watch(in, folder), EINVAL);
    close(open("file", O_RDONLY));
    nothing();
}

static void moves(void) {
    int from = inotify_add_watch(in, ".", IN_MOVE | IN_CREATE | IN_DELETE);
    int to = inotify_add_watch(in, "sub", IN_MOVE | IN_MOVE_SELF | IN_DELETE_SELF);
    int own = inotify_add_watch(in, "file", IN_MOVE_SELF | IN_DELETE_SELF | IN_ATTRIB);
    CHECK(from != to && to != own);
    CHECK(rename("file", "sub/moved") == 0);
    uint32_t cookie = expect_cookie(from, IN_MOVED_FROM, "file");
    CHECK(cookie != 0 && expect_cookie(to, IN_MOVED_TO, "moved") == cookie);
    expect(own, IN_MOVE_SELF, "");
    make_file("other", "text");
    expect(from, IN_CREATE, "other");
    CHECK(rename("other", "sub/moved") == 0);
    uint32_t second = expect_cookie(from, IN_MOVED_FROM, "other");
    CHECK(second != cookie && expect_cookie(to, IN_MOVED_TO, "moved") == second);
    expect(own, IN_ATTRIB, "");
    expect(own, IN_DELETE_SELF, "");
    expect(own, IN_IGNORED, "");
    CHECK(rename("sub", "folder") == 0);
    cookie = expect_cookie(from, IN_MOVED_FROM | IN_ISDIR, "sub");
    CHECK(expect_cookie(from, IN_MOVED_TO | IN_ISDIR, "folder") == cookie);
    expect(to, IN_MOVE_SELF, "");
    int in_folder = inotify_add_watch(in, "folder", IN_MODIFY | IN_DELETE_SELF);
    CHECK(in_folder == to);
    make_file("folder/moved", "more");
    expect(to, IN_MODIFY, "moved");
    CHECK(unlink("folder/moved") == 0 && rmdir("folder") == 0);
    expect(to, IN_DELETE_SELF, "");
    expect(to, IN_IGNORED, "");
    expect(from, IN_DELETE | IN_ISDIR, "folder");
    CHECK(inotify_rm_watch(in, from) == 0);
    expect(from, IN_IGNORED, "");
    nothing();
}

static void masks(void) {
    make_file("file", "text");
    int watch = inotify_add_watch(in, "file", IN_MODIFY);
    CHECK(inotify_add_watch(in, "file", IN_OPEN | IN_MASK_ADD) == watch);
    FAILS(inotify_add_watch(in, "file", IN_OPEN | IN_MASK_CREATE), EEXIST);
    FAILS(inotify_add_watch(in, "file", IN_OPEN | IN_ONLYDIR), ENOTDIR);
    FAILS(inotify_add_watch(in, "file", 0), EINVAL);
    FAILS(inotify_add_watch(in, "absent", IN_OPEN), ENOENT);
    FAILS(inotify_add_watch(1, "file", IN_OPEN), EINVAL);
    int fd = open("file", O_WRONLY);
    CHECK(write(fd, "a", 1) == 1);
    expect(watch, IN_OPEN, "");
    expect(watch, IN_MODIFY, "");
    CHECK(inotify_add_watch(in, "file", IN_CLOSE_WRITE | IN_ONESHOT) == watch);
    CHECK(write(fd, "b", 1) == 1);
    nothing();
    close(fd);
    expect(watch, IN_CLOSE_WRITE, "");
    expect(watch, IN_IGNORED, "");
    close(open("file", O_WRONLY));
    nothing();
    CHECK(symlink("file", "name") == 0);
    watch = inotify_add_watch(in, "name", IN_DELETE_SELF | IN_DONT_FOLLOW);
    CHECK(unlink("name") == 0);
    expect(watch, IN_DELETE_SELF, "");
    expect(watch, IN_IGNORED, "");
    watch = inotify_add_watch(in, "file", IN_ATTRIB);
    CHECK(read(in, (char[8]){0}, 8) == -1 && errno == EAGAIN);
    CHECK(chmod("file", 0600) == 0);
    FAILS(read(in, (char[8]){0}, 8), EINVAL);
    expect(watch, IN_ATTRIB, "");
    CHECK(inotify_rm_watch(in, watch) == 0);
    expect(watch, IN_IGNORED, "");
}

/* A queue that is full says so once, and goes on when it was read. */
static void overflow(void) {
    int folder = inotify_add_watch(in, ".", IN_ATTRIB);
    CHECK(folder > 0);
    make_file("one", "1");
    make_file("two", "2");
    int one = open("one", O_RDONLY), two = open("two", O_RDONLY);
    for (int i = 0; i < 8300; i++) CHECK(fchmod(one, 0600 + i % 2) == 0 && fchmod(two, 0600 + i % 2) == 0);
    int count = 0;
    struct inotify_event *event;
    while ((event = next()) && event->mask == IN_ATTRIB) count++;
    CHECK(event && event->mask == IN_Q_OVERFLOW && event->wd == -1 && event->len == 0);
    CHECK(count == 16384);
    nothing();
    CHECK(fchmod(one, 0600) == 0);
    expect(folder, IN_ATTRIB, "one");
    close(one), close(two);
}

static void blocking(void) {
    int ends = inotify_init1(IN_CLOEXEC);
    CHECK(ends >= 0 && inotify_add_watch(ends, ".", IN_CREATE) > 0);
    if (fork() == 0) {
        sleep_ms(20);
        make_file("late", "x");
        _exit(0);
    }
    char buffer[512];
    CHECK(read(ends, buffer, sizeof buffer) == 32 && ((struct inotify_event *)buffer)->mask == IN_CREATE);
    CHECK(wait(NULL) > 0);
    close(ends);
    FAILS(inotify_init1(0x1), EINVAL);
    int count = 0, all[200];
    while (count < 200 && (all[count] = inotify_init1(0)) >= 0) count++;
    CHECK(errno == EMFILE && count < 200);
    while (count--) close(all[count]);
    CHECK((ends = inotify_init()) >= 0);
    close(ends);
}

int main(void) {
    enter_directory();
    in = inotify_init1(IN_NONBLOCK);
    CHECK(in >= 0);
    contents();
    moves();
    masks();
    overflow();
    blocking();
    done("inotify");
    return 0;
}
