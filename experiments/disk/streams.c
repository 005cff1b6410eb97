/* A tenant that wants all of a disk (Omni-kernel, section on file system workloads): readers go through files of their own, each opened,
   read by four streams from parts that do not overlap, dropped from memory and closed. So every byte comes from the disk, each time.
   Run by `gyre exp disk-shares`: /reader READERS FILES, with files /srv/f0, /srv/f1 and so on, FILES for each reader. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define STREAMS 4
#define PIECE (32 * 1024)

struct reader {
    int first, files, file;
    pthread_barrier_t opened, read;
};

struct stream {
    struct reader *of;
    int index;
};

static void fail(const char *what) {
    fprintf(stderr, "reader: %s: %d\n", what, errno);
    exit(1);
}

static void open_next(struct reader *reader, int turn) {
    char path[32];
    snprintf(path, sizeof path, "/srv/f%d", reader->first + turn % reader->files);
    reader->file = open(path, O_RDONLY);
    if (reader->file < 0) fail("open");
}

static void drop(int file) {
    if (posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) != 0) fail("fadvise");
    close(file);
}

static void read_part(int file, int index, char *buffer) {
    off_t bytes = lseek(file, 0, SEEK_END) / STREAMS;
    for (off_t at = index * bytes; at < (index + 1) * bytes; at += PIECE) {
        if (pread(file, buffer, PIECE, at) != PIECE) fail("read");
    }
}

static void *run(void *argument) {
    struct stream *stream = argument;
    struct reader *reader = stream->of;
    char *buffer = malloc(PIECE);
    for (int turn = 0;; turn++) {
        if (stream->index == 0) open_next(reader, turn);
        pthread_barrier_wait(&reader->opened);
        read_part(reader->file, stream->index, buffer);
        pthread_barrier_wait(&reader->read);
        if (stream->index == 0) drop(reader->file);
    }
    return NULL;
}

static void begin(struct reader *reader, int first, int files) {
    reader->first = first;
    reader->files = files;
    pthread_barrier_init(&reader->opened, NULL, STREAMS);
    pthread_barrier_init(&reader->read, NULL, STREAMS);
    for (int index = 0; index < STREAMS; index++) {
        struct stream *stream = malloc(sizeof *stream);
        pthread_t thread;
        pthread_attr_t small;
        *stream = (struct stream){reader, index};
        pthread_attr_init(&small);
        pthread_attr_setstacksize(&small, 64 * 1024);
        if (pthread_create(&thread, &small, run, stream) != 0) fail("thread");
    }
}

int main(int count, char **arguments) {
    int readers = count > 2 ? atoi(arguments[1]) : 0, files = count > 2 ? atoi(arguments[2]) : 0;
    if (readers < 1 || files < 1) {
        fprintf(stderr, "usage: reader READERS FILES\n");
        return 2;
    }
    struct reader *all = calloc(readers, sizeof *all);
    for (int index = 0; index < readers; index++) begin(&all[index], index * files, files);
    for (;;) pause();
}
