/* Measures a file system as programs use it: small files made and removed, rows put into SQLite, trees packed and unpacked, fio. `gyre exp
 * files` runs this on Gyre and on Linux with the programs of the same image. Each line: "files: NAME COUNT", the nanoseconds of one
 * piece of work, the least of several rounds. For "instructions" the emulator counts (count.c), whatever waits meanwhile: between marks
 * before the same work made small, before the work (of the last round), and after it; the line is "files: NAME@ COUNT" then, with the
 * pieces of work that lie between the last two marks more.
 *
 *     files time|instructions [NAME] */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SMALL_FILES 1000
#define TREE_FOLDERS 100
#define TREE_FILES 10000
#define ROWS 5000
#define TRANSACTIONS 50

static const char *only;
static int counts_instructions;

static void fail(const char *what) {
    printf("files: FAILED %s: %s\n", what, strerror(errno));
    fflush(stdout);
    exit(1);
}

static void must(int good, const char *what) {
    if (!good) fail(what);
}

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void tell(const char *name, uint64_t value) {
    printf("files: %s %lu\n", name, (unsigned long)value);
    fflush(stdout);
}

/* Says to the emulator's counter that it is here: an instruction that does nothing and that nobody else uses. */
static void mark(void) { __asm__ volatile(".byte 0x0f, 0x1f, 0x84, 0x00; .ascii \"Gyre\"" ::: "memory"); }

/* Tells what lies between the last two marks, less what lies between the two before, of so many pieces. */
static void tell_marked(const char *name, uint64_t pieces) {
    printf("files: %s@ %lu\n", name, (unsigned long)pieces);
    fflush(stdout);
}

/* Rounds of some work, of which the least counts; for instructions the last. */
struct rounds {
    const char *name;
    uint64_t pieces, start, best;
};

static void begin(struct rounds *rounds, int is_last) {
    if (counts_instructions && is_last) mark(), mark();
    rounds->start = now();
}

static void end(struct rounds *rounds, int is_last) {
    uint64_t spent = now() - rounds->start;
    if (!rounds->best || spent < rounds->best) rounds->best = spent;
    if (!is_last) return;
    if (counts_instructions) mark(), tell_marked(rounds->name, rounds->pieces);
    else tell(rounds->name, rounds->best / rounds->pieces);
}

static int wanted(const char *name) { return !only || !strncmp(name, only, strlen(only)); }

/* Runs a program to its end, with its input from and its output to files if named. */
static void program(const char *input, const char *output, char *const words[]) {
    pid_t child = fork();
    must(child >= 0, "fork");
    if (child == 0) {
        if (input) must(dup2(open(input, O_RDONLY), 0) == 0, input);
        if (output) must(dup2(open(output, O_WRONLY | O_CREAT | O_TRUNC, 0644), 1) == 1, output);
        execv(words[0], words);
        _exit(127);
    }
    int status;
    must(waitpid(child, &status, 0) == child, "waitpid");
    errno = 0;
    if (status) printf("files: status %#x\n", status);
    must(status == 0, words[0]);
}

#define RUN(input, output, ...) program(input, output, (char *[]){__VA_ARGS__, NULL})

static char text[4096];

static void write_file(const char *path, int bytes) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0644);
    must(fd >= 0, path);
    must(write(fd, text, bytes) == bytes, "write");
    close(fd);
}

/* 1,000 files of 1 KiB in one folder, made and removed. */
static void small_files(void) {
    struct rounds made = {"small-create", SMALL_FILES}, removed = {"small-delete", SMALL_FILES};
    char path[64];
    if (!wanted("small")) return;
    mkdir("/data/small", 0755);
    for (int round = 0; round < 4; round++) {
        begin(&made, round == 3);
        for (int i = 0; i < SMALL_FILES; i++) {
            snprintf(path, sizeof path, "/data/small/%06d", i);
            write_file(path, 1024);
        }
        end(&made, round == 3);
        begin(&removed, round == 3);
        for (int i = 0; i < SMALL_FILES; i++) {
            snprintf(path, sizeof path, "/data/small/%06d", i);
            must(unlink(path) == 0, "unlink");
        }
        end(&removed, round == 3);
    }
}

static void rows(const char *path, const char *head, int count, const char *tail) {
    FILE *file = fopen(path, "w");
    must(file != NULL, path);
    fprintf(file, "create table if not exists t (n integer primary key, text);\n%s\n", head);
    for (int i = 0; i < count; i++) fprintf(file, "insert into t (text) values ('row %08d of a table that is filled for measuring');\n", i);
    fprintf(file, "%s\n", tail);
    must(fclose(file) == 0, path);
}

/* Rows in one transaction; then each a transaction with its syncs. */
static void sqlite(void) {
    struct rounds row = {"sqlite-row", ROWS}, transaction = {"sqlite-transaction", TRANSACTIONS};
    if (!wanted("sqlite")) return;
    rows("/data/rows.sql", "pragma synchronous = off; begin;", ROWS, "commit;");
    rows("/data/transactions.sql", "", TRANSACTIONS, "");
    rows("/data/empty.sql", "", 0, "");
    for (int round = 0; round < 3; round++) {
        unlink("/data/db");
        RUN("/data/empty.sql", NULL, "/usr/bin/sqlite3", "/data/db");
        begin(&row, round == 2);
        RUN("/data/rows.sql", NULL, "/usr/bin/sqlite3", "/data/db");
        end(&row, round == 2);
    }
    for (int round = 0; round < 3; round++) {
        begin(&transaction, round == 2);
        RUN("/data/transactions.sql", NULL, "/usr/bin/sqlite3", "/data/db");
        end(&transaction, round == 2);
    }
}

static void make_tree(void) {
    char path[96];
    must(mkdir("/data/tree", 0755) == 0, "mkdir");
    for (int i = 0; i < TREE_FILES; i++) {
        int folder = i / (TREE_FILES / TREE_FOLDERS);
        if (i % (TREE_FILES / TREE_FOLDERS) == 0) {
            snprintf(path, sizeof path, "/data/tree/%03d", folder);
            must(mkdir(path, 0755) == 0, "mkdir");
        }
        snprintf(path, sizeof path, "/data/tree/%03d/file-%05d", folder, i);
        write_file(path, 512 + i * 7 % 3500);
    }
}

/* 10,000 files of 0.5 to 4 KiB: packed, removed, unpacked. */
static void trees(void) {
    struct rounds packed = {"tar-create", TREE_FILES}, removed = {"rm-tree", TREE_FILES}, unpacked = {"tar-extract", TREE_FILES};
    struct rounds synced = {"sync-tree", TREE_FILES};
    if (!wanted("tar")) return;
    make_tree();
    for (int round = 0; round < 2; round++) {
        begin(&packed, round == 1);
        RUN(NULL, NULL, "/usr/bin/tar", "cf", "/data/tree.tar", "-C", "/data", "tree");
        end(&packed, round == 1);
        begin(&removed, round == 1);
        RUN(NULL, NULL, "/usr/bin/rm", "-rf", "/data/tree");
        end(&removed, round == 1);
        begin(&unpacked, round == 1);
        RUN(NULL, NULL, "/usr/bin/tar", "xf", "/data/tree.tar", "-C", "/data");
        end(&unpacked, round == 1);
    }
    begin(&synced, 1);
    sync();
    end(&synced, 1);
}

/* A field of fio's terse line (version 3), counted from 0. */
static char *field(char *line, int number) {
    while (number-- && line) {
        line = strchr(line, ';');
        if (line) line++;
    }
    return line;
}

/* A task for fio. */
struct job {
    const char *name, *pattern, *engine;
    /* Requests at a time: threads of psync, or the depth of one job's queue. */
    int depth, bytes, is_cached, is_direct;
};

/* Requests that a job makes: the whole file if they are large or in the cache, else a quarter. Fio tells its time in ms: 256 requests of
   64 KiB took 33 to 49. */
static int requests_of(const struct job *job) { return (job->is_cached || job->bytes > 4096 ? 64 << 20 : 16 << 20) / job->bytes; }

/* Runs fio for so many requests; its words go to /data/fio.out. */
static void run_fio(const struct job *job, int requests) {
    char rw[32], block[32], jobs[32], depth[32], size[32], invalidate[32], direct[32], engine[32];
    int threads = strcmp(job->engine, "psync") ? 1 : job->depth;
    int ends_with_sync = strstr(job->pattern, "write") && !job->is_cached;
    snprintf(rw, sizeof rw, "--rw=%s", job->pattern);
    snprintf(block, sizeof block, "--bs=%d", job->bytes);
    snprintf(jobs, sizeof jobs, "--numjobs=%d", threads);
    snprintf(depth, sizeof depth, "--iodepth=%d", threads > 1 ? 1 : job->depth);
    snprintf(engine, sizeof engine, "--ioengine=%s", job->engine);
    snprintf(direct, sizeof direct, "--direct=%d", job->is_direct);
    snprintf(invalidate, sizeof invalidate, "--invalidate=%d", !job->is_cached);
    /* Each thread does its part. */
    snprintf(size, sizeof size, "--io_size=%d", requests / threads * job->bytes);
    RUN(NULL, "/data/fio.out", "/usr/bin/fio", "--name=job", "--filename=/data/fio", "--size=64m", rw, block, jobs, depth, size, invalidate, direct, engine, "--thread",
        "--group_reporting", "--output-format=terse", "--terse-version=3", "--fallocate=none", "--randrepeat=1", "--offset_increment=4m",
        ends_with_sync ? "--end_fsync=1" : "--end_fsync=0");
}

/* Rounds by the clock: each is some tenths of a second, in which a host does other things, too; the shortest is told. */
enum { FIO_ROUNDS = 4 };

/* The nanoseconds of one request, as fio says. */
static uint64_t fio_ns(const struct job *job) {
    char line[4096], *found = NULL;
    FILE *file = fopen("/data/fio.out", "r");
    must(file != NULL, "fio.out");
    while (!found && fgets(line, sizeof line, file)) found = strncmp(line, "3;", 2) ? NULL : field(line, strstr(job->pattern, "write") ? 47 : 6);
    fclose(file);
    double kib_per_second = found ? atof(found) : 0;
    must(kib_per_second > 0, job->name);
    return (uint64_t)(job->bytes / 1024.0 / kib_per_second * 1e9);
}

static void fio_job(struct job job) {
    if (!wanted(job.name)) return;
    if (!counts_instructions) {
        uint64_t least = UINT64_MAX;
        for (int round = 0; round < FIO_ROUNDS; round++) {
            run_fio(&job, requests_of(&job));
            uint64_t ns = fio_ns(&job);
            if (ns < least) least = ns;
        }
        tell(job.name, least);
        return;
    }
    /* One request of each thread takes what fio's start and end take; the first time more, as nothing of fio is in memory. */
    run_fio(&job, job.depth);
    mark();
    run_fio(&job, job.depth);
    mark();
    run_fio(&job, requests_of(&job));
    mark();
    tell_marked(job.name, requests_of(&job) - job.depth);
}

static void fio(void) {
    static char zeros[1 << 16];
    if (!wanted("fio")) return;
    int fd = open("/data/fio", O_WRONLY | O_CREAT, 0644);
    must(fd >= 0, "/data/fio");
    for (int i = 0; i < 1024; i++) must(write(fd, zeros, sizeof zeros) == sizeof zeros, "write");
    must(fsync(fd) == 0, "fsync");
    close(fd);
    fio_job((struct job){"fio-cached-read-4k", "randread", "psync", 1, 4096, .is_cached = 1});
    fio_job((struct job){"fio-cached-write-4k", "randwrite", "psync", 1, 4096, .is_cached = 1});
    fio_job((struct job){"fio-randread-4k-1", "randread", "psync", 1, 4096});
    fio_job((struct job){"fio-randread-4k-16", "randread", "psync", 16, 4096});
    fio_job((struct job){"fio-read-64k-1", "read", "psync", 1, 65536});
    fio_job((struct job){"fio-read-64k-16", "read", "psync", 16, 65536});
    fio_job((struct job){"fio-randwrite-4k-1", "randwrite", "psync", 1, 4096});
    fio_job((struct job){"fio-randwrite-4k-16", "randwrite", "psync", 16, 4096});
    fio_job((struct job){"fio-write-64k-1", "write", "psync", 1, 65536});
    fio_job((struct job){"fio-write-64k-16", "write", "psync", 16, 65536});
    fio_job((struct job){"fio-ring-randread-4k-16", "randread", "io_uring", 16, 4096});
    fio_job((struct job){"fio-ring-read-64k-16", "read", "io_uring", 16, 65536});
    fio_job((struct job){"fio-ring-randwrite-4k-16", "randwrite", "io_uring", 16, 4096});
    fio_job((struct job){"fio-ring-write-64k-16", "write", "io_uring", 16, 65536});
    fio_job((struct job){"fio-direct-randread-4k-1", "randread", "io_uring", 1, 4096, .is_direct = 1});
    fio_job((struct job){"fio-direct-randread-4k-16", "randread", "io_uring", 16, 4096, .is_direct = 1});
    fio_job((struct job){"fio-direct-read-64k-1", "read", "io_uring", 1, 65536, .is_direct = 1});
    fio_job((struct job){"fio-direct-read-64k-16", "read", "io_uring", 16, 65536, .is_direct = 1});
    fio_job((struct job){"fio-direct-randwrite-4k-1", "randwrite", "io_uring", 1, 4096, .is_direct = 1});
    fio_job((struct job){"fio-direct-randwrite-4k-16", "randwrite", "io_uring", 16, 4096, .is_direct = 1});
    fio_job((struct job){"fio-direct-write-64k-1", "write", "io_uring", 1, 65536, .is_direct = 1});
    fio_job((struct job){"fio-direct-write-64k-16", "write", "io_uring", 16, 65536, .is_direct = 1});
}

int main(int count, char **words) {
    counts_instructions = count > 1 && !strcmp(words[1], "instructions");
    only = count > 2 ? words[2] : NULL;
    memset(text, 'x', sizeof text);
    mkdir("/data", 0755);
    small_files();
    sqlite();
    trees();
    fio();
    tell("done", 0);
    return 0;
}
