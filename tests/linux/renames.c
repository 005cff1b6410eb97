/* rename, unlink, rmdir, link: what replaces what. */
#include "check.h"
#include <fcntl.h>
#include <sys/stat.h>

static const struct { const char *from, *to; int error; } cases[] = {
    {"a", "a/b/c", EINVAL}, {"a", "full", ENOTEMPTY}, {"a", "f", ENOTDIR}, {"f", "a", EISDIR}, {"f", "none/x", ENOENT},
    {"none", "x", ENOENT}, {"f", "h/", ENOTDIR}, {"f", "g", 0}, {"a", "empty", 0}, {"empty/b", "b/", 0},
};

int main(void)
{
    struct stat out;
    char text[4];
    enter_directory();
    CHECK(mkdir("a", 0755) == 0 && mkdir("a/b", 0755) == 0 && mkdir("empty", 0755) == 0 && mkdir("full", 0755) == 0);
    make_file("f", "f"), make_file("g", "g"), make_file("full/x", "");
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        int error = rename(cases[index].from, cases[index].to) == 0 ? 0 : errno;
        if (error != cases[index].error) {
            printf("FAILED rename %s %s: %d\n", cases[index].from, cases[index].to, error);
            return 1;
        }
    }
    int file = open("g", O_RDONLY);
    CHECK(read(file, text, 4) == 1 && text[0] == 'f');
    CHECK(link("g", "second") == 0 && stat("second", &out) == 0 && out.st_nlink == 2);
    CHECK(rename("g", "second") == 0 && stat("g", &out) == 0);
    FAILS(link("full", "other"), EPERM);
    FAILS(link("g", "second"), EEXIST);
    CHECK(unlink("g") == 0 && unlink("second") == 0);
    CHECK(fstat(file, &out) == 0 && out.st_nlink == 0);
    CHECK(lseek(file, 0, SEEK_SET) == 0 && read(file, text, 4) == 1);
    FAILS(rmdir("full"), ENOTEMPTY);
    FAILS(rmdir("full/x"), ENOTDIR);
    FAILS(rmdir("full/."), EINVAL);
    FAILS(unlink("full/x/"), ENOTDIR);
    FAILS(unlink("full"), EISDIR);
    CHECK(rmdir("b/") == 0);
    FAILS(renameat2(AT_FDCWD, "full", AT_FDCWD, "empty", RENAME_NOREPLACE), EEXIST);
    puts("ok renames");
    return 0;
}
