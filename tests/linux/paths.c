/* Paths: links, dots, trailing slashes, flags of open, lengths. */
#include "check.h"
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

static int number(const char *path) { struct stat out; return stat(path, &out) == 0 ? 0 : errno; }
static int link_number(const char *path) { struct stat out; return lstat(path, &out) == 0 ? 0 : errno; }

static const struct { const char *path; int error; } cases[] = {
    {"d/f", 0}, {"d//f", 0}, {"d/./f", 0}, {"d/e/../f", 0}, {"d/link", 0}, {"d/chain", 0}, {"up/", 0},
    {"", ENOENT}, {"d/f/", ENOTDIR}, {"d/f/.", ENOTDIR}, {"d/f/..", ENOTDIR}, {"d/link/", ENOTDIR},
    {"d/none", ENOENT}, {"d/none/x", ENOENT}, {"d/dangling", ENOENT}, {"d/loop", ELOOP}, {"/../..", 0},
};

static const struct { const char *path; int flags; int error; } opens[] = {
    {"d/f", O_CREAT | O_EXCL, EEXIST}, {"d/link", O_NOFOLLOW, ELOOP}, {"d/dangling", O_CREAT | O_EXCL, EEXIST},
    {"d/f", O_DIRECTORY, ENOTDIR}, {"d", O_WRONLY, EISDIR}, {"d", O_CREAT, EISDIR},
    {"new/", O_CREAT, EISDIR}, {"d/f/x", O_CREAT | O_WRONLY, ENOTDIR}, {"none/x", O_CREAT | O_WRONLY, ENOENT},
};

static void names(void)
{
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++)
        if (number(cases[index].path) != cases[index].error) {
            printf("FAILED path %s: %d\n", cases[index].path, number(cases[index].path));
            exit(1);
        }
    CHECK(link_number("d/dangling") == 0 && link_number("d/loop") == 0 && link_number("d/loop/") == ELOOP);
    for (size_t index = 0; index < sizeof opens / sizeof *opens; index++)
        if (open(opens[index].path, opens[index].flags, 0600) != -1 || errno != opens[index].error) {
            printf("FAILED open %s: %d\n", opens[index].path, errno);
            exit(1);
        }
    char name[300] = {0};
    memset(name, 'x', 256);
    CHECK(number(name) == ENAMETOOLONG);
    static char path[PATH_MAX + 10];
    for (size_t at = 0; at + 2 < sizeof path; at += 2)
        memcpy(path + at, "./", 2);
    CHECK(number(path) == ENAMETOOLONG);
}

static void links(void)
{
    char from[16], to[16];
    make_file("l0", "");
    for (int index = 1; index <= 41; index++) {
        sprintf(from, "l%d", index - 1), sprintf(to, "l%d", index);
        CHECK(symlink(from, to) == 0);
    }
    CHECK(number("l40") == 0 && number("l41") == ELOOP);
    char text[8];
    CHECK(readlink("l12", text, sizeof text) == 3 && memcmp(text, "l11", 3) == 0);
    CHECK(readlink("l12", text, 2) == 2);
    FAILS(readlink("l0", text, 8), EINVAL);
}

static void directories(void)
{
    char before[PATH_MAX], after[PATH_MAX];
    CHECK(getcwd(before, sizeof before) != NULL);
    CHECK(chdir("d/e/../e") == 0);
    CHECK(getcwd(after, sizeof after) != NULL);
    CHECK(strncmp(after, before, strlen(before)) == 0 && strcmp(after + strlen(before), "/d/e") == 0);
    CHECK(getcwd(after, 2) == NULL && errno == ERANGE);
    int up = open("../..", O_RDONLY | O_DIRECTORY);
    CHECK(fchdir(up) == 0 && number("d/e") == 0);
    CHECK(openat(up, "d/f", O_RDONLY) >= 0);
    FAILS(openat(9999, "d/f", O_RDONLY), EBADF);
    int file = open("d/f", O_RDONLY);
    FAILS(openat(file, "x", O_RDONLY), ENOTDIR);
    FAILS(fchdir(file), ENOTDIR);
    int name = open("d/link", O_PATH | O_NOFOLLOW);
    struct stat out;
    CHECK(name >= 0 && fstat(name, &out) == 0 && S_ISLNK(out.st_mode));
    char byte;
    FAILS(read(name, &byte, 1), EBADF);
}

int main(void)
{
    enter_directory();
    CHECK(mkdir("d", 0755) == 0 && mkdir("d/e", 0755) == 0);
    make_file("d/f", "1");
    CHECK(symlink("f", "d/link") == 0 && symlink("e/../link", "d/chain") == 0 && symlink("d/..", "up") == 0);
    CHECK(symlink("nowhere", "d/dangling") == 0 && symlink("loop", "d/loop") == 0);
    names();
    links();
    directories();
    puts("ok paths");
    return 0;
}
