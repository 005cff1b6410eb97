/* Holes, files without names, exchanged names, extended attributes, durable writes. */
#include "check.h"
#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/xattr.h>

#ifndef RWF_APPEND
#define RWF_APPEND 16
#endif

static void holes(void)
{
    char text[8] = "xxxxxxx";
    struct stat out;
    int file = open("holes", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0 && pwrite(file, "end", 3, 1 << 20) == 3);
    CHECK(lseek(file, 0, SEEK_DATA) == 1 << 20);
    CHECK(lseek(file, 0, SEEK_HOLE) == 0);
    CHECK(lseek(file, 1 << 20, SEEK_HOLE) == (1 << 20) + 3);
    FAILS((int)lseek(file, (1 << 20) + 3, SEEK_DATA), ENXIO);
    CHECK(pwrite(file, "0123456789", 10, 4090) == 10);
    if (fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4092, 2) == 0) {
        CHECK(pread(file, text, 8, 4090) == 8 && memcmp(text, "01\0\0004567", 8) == 0);
        CHECK(fstat(file, &out) == 0 && out.st_size == (1 << 20) + 3);
    } else
        CHECK(errno == EOPNOTSUPP);
    FAILS(fallocate(file, FALLOC_FL_PUNCH_HOLE, 0, 10), EOPNOTSUPP);
    /* Zeroing past the end without growing: all of it, or nothing. */
    char kept = 0;
    CHECK(fstat(file, &out) == 0 && out.st_size == (1 << 20) + 3);
    int zeroed = fallocate(file, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, out.st_size - 1, 8192);
    CHECK(pread(file, &kept, 1, out.st_size - 1) == 1 && kept == (zeroed == 0 ? 0 : 'd'));
    CHECK(pwrite(file, "d", 1, out.st_size - 1) == 1);
    FAILS(fallocate(file, 0, 0, 0), EINVAL);
    CHECK(posix_fallocate(file, 0, 2 << 20) == 0 && fstat(file, &out) == 0 && out.st_size == 2 << 20);
    CHECK(pread(file, text, 3, 1 << 20) == 3 && memcmp(text, "end", 3) == 0);
    close(file);
}

static void large_files(void)
{
    char text[4];
    struct stat out;
    int file = open("large", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(pwrite(file, "far", 3, 5LL << 30) == 3);
    CHECK(fstat(file, &out) == 0 && out.st_size == (5LL << 30) + 3 && out.st_blocks < 1000);
    CHECK(pread(file, text, 4, 5LL << 30) == 3 && memcmp(text, "far", 3) == 0);
    CHECK(ftruncate(file, 10) == 0 && fstat(file, &out) == 0 && out.st_size == 10);
    close(file), unlink("large");
}

static void nameless(void)
{
    char path[64];
    struct stat out;
    int file = open(".", O_TMPFILE | O_RDWR, 0640);
    if (file < 0) {
        CHECK(errno == EOPNOTSUPP);
        return;
    }
    CHECK(fstat(file, &out) == 0 && out.st_nlink == 0 && (out.st_mode & 0777) == 0640);
    CHECK(write(file, "text", 4) == 4);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    CHECK(linkat(AT_FDCWD, path, AT_FDCWD, "named", AT_SYMLINK_FOLLOW) == 0);
    CHECK(stat("named", &out) == 0 && out.st_nlink == 1 && out.st_size == 4);
    CHECK(unlink("named") == 0);
    FAILS(linkat(AT_FDCWD, path, AT_FDCWD, "again", AT_SYMLINK_FOLLOW), ENOENT);
    FAILS(open(".", O_TMPFILE | O_RDONLY, 0600), EINVAL);
    FAILS(open("none", O_TMPFILE | O_RDWR, 0600), ENOENT);
    close(file);
}

static void exchanged(void)
{
    char text[4] = "";
    make_file("one", "1"), make_file("two", "2");
    CHECK(renameat2(AT_FDCWD, "one", AT_FDCWD, "two", RENAME_EXCHANGE) == 0);
    int file = open("one", O_RDONLY);
    CHECK(read(file, text, 4) == 1 && text[0] == '2');
    close(file);
    FAILS(renameat2(AT_FDCWD, "one", AT_FDCWD, "none", RENAME_EXCHANGE), ENOENT);
    FAILS(renameat2(AT_FDCWD, "one", AT_FDCWD, "two", RENAME_EXCHANGE | RENAME_NOREPLACE), EINVAL);
    FAILS(renameat2(AT_FDCWD, "one", AT_FDCWD, "two", RENAME_NOREPLACE), EEXIST);
    CHECK(renameat2(AT_FDCWD, "one", AT_FDCWD, "three", RENAME_NOREPLACE) == 0);
}

static void attributes(void)
{
    char value[100];
    make_file("attributes", "x");
    if (setxattr("attributes", "user.test", "value", 5, 0) < 0) {
        CHECK(errno == EOPNOTSUPP);
        return;
    }
    CHECK(getxattr("attributes", "user.test", NULL, 0) == 5);
    CHECK(getxattr("attributes", "user.test", value, sizeof value) == 5 && memcmp(value, "value", 5) == 0);
    FAILS((int)getxattr("attributes", "user.test", value, 2), ERANGE);
    FAILS((int)getxattr("attributes", "user.none", value, 2), ENODATA);
    FAILS(setxattr("attributes", "user.test", "v", 1, XATTR_CREATE), EEXIST);
    FAILS(setxattr("attributes", "user.none", "v", 1, XATTR_REPLACE), ENODATA);
    FAILS(setxattr("attributes", "nothing", "v", 1, 0), EOPNOTSUPP);
    CHECK(listxattr("attributes", value, sizeof value) >= 10);
    CHECK(removexattr("attributes", "user.test") == 0);
    FAILS(removexattr("attributes", "user.test"), ENODATA);
    CHECK(symlink("attributes", "symbolic") == 0);
    FAILS(lsetxattr("symbolic", "user.test", "v", 1, 0), EPERM);
}

static void durable(void)
{
    struct iovec piece = {"abc", 3};
    struct stat out;
    int file = open("durable", O_RDWR | O_CREAT | O_TRUNC | O_DSYNC, 0600);
    CHECK(write(file, "x", 1) == 1);
    CHECK(pwritev2(file, &piece, 1, 0, RWF_APPEND) == 3 && fstat(file, &out) == 0 && out.st_size == 4);
    CHECK(lseek(file, 0, SEEK_CUR) == 1);
    CHECK(pwritev2(file, &piece, 1, 0, 2) == 3 && fdatasync(file) == 0 && syncfs(file) == 0);
    CHECK(sync_file_range(file, 0, 0, SYNC_FILE_RANGE_WRITE) == 0);
    FAILS(sync_file_range(file, -1, 0, SYNC_FILE_RANGE_WRITE), EINVAL);
    FAILS(sync_file_range(file, 0, 0, 64), EINVAL);
    close(file);
}

/* Data sent into a file goes to its position, not to its end. */
static void sent(void)
{
    char text[16] = "";
    make_file("source", "0123456789");
    int from = open("source", O_RDONLY), to = open("target", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(write(to, "aaaaaaaaaaaa", 12) == 12 && lseek(to, 2, SEEK_SET) == 2);
    CHECK(sendfile(to, from, NULL, 4) == 4 && lseek(to, 0, SEEK_CUR) == 6 && lseek(from, 0, SEEK_CUR) == 4);
    CHECK(sendfile(to, from, NULL, 100) == 6 && lseek(to, 0, SEEK_CUR) == 12);
    CHECK(write(to, "end", 3) == 3 && pread(to, text, 16, 0) == 15 && memcmp(text, "aa0123456789end", 15) == 0);
    close(from), close(to);
}

static void many(void)
{
    char name[32];
    CHECK(mkdir("many", 0755) == 0 && chdir("many") == 0);
    make_file("first", "1");
    for (int number = 0; number < 3000; number++) {
        snprintf(name, sizeof name, "link-%d", number);
        CHECK(link("first", name) == 0);
    }
    for (int number = 0; number < 3000; number++) {
        snprintf(name, sizeof name, "link-%d", number);
        CHECK(unlink(name) == 0);
    }
    CHECK(unlink("first") == 0 && chdir("..") == 0 && rmdir("many") == 0);
}

static void all(void)
{
    holes();
    large_files();
    nameless();
    exchanged();
    attributes();
    durable();
    sent();
    many();
}

int main(void)
{
    char on_disk[] = "/var/tmp/gyre-test-XXXXXX";
    enter_directory();
    all();
    /* A file system in memory first, then one on a disk. */
    CHECK(mkdtemp(on_disk) != NULL && chdir(on_disk) == 0);
    all();
    puts("ok files");
    return 0;
}
