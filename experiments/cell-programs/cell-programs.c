/* Programs with much data, and what they cost (XOS, Fig. 4).
 *   make FILE BYTES          writes lines of words and numbers
 *   k-means FILE             points of the file's bytes, 8 dimensions, 16 centres, 3 rounds
 *   bayes FILE               a naive Bayes classifier of lines: trains on the first half, classifies the second one
 *   count NAME PROGRAM ...   runs a program to its end and prints "cell-programs: NAME COUNT": the growth of the time stamp counter
 *   serve SECONDS PROGRAM .. starts a server and leaves it
 * On an emulator that counts instructions as nanoseconds the counter counts instructions of all cores. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <x86intrin.h>

#define DIMENSIONS 8
#define CENTRES 16
#define ROUNDS 3
#define FEATURES 4096

static void must(int good, const char *what) {
    if (good) return;
    printf("cell-programs: FAILED %s: %s\n", what, strerror(errno));
    fflush(stdout);
    exit(1);
}

static uint64_t state = 88172645463325252;
static uint64_t next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void make(const char *name, size_t bytes) {
    static const char *words[] = {"core", "cell", "page", "line", "fault", "queue", "memory", "kernel", "thread", "packet", "disk", "lease"};
    FILE *file = fopen(name, "w");
    must(file != NULL, name);
    for (size_t written = 0; written < bytes;) {
        int n = fprintf(file, "%016lx", (unsigned long)next());
        for (int i = 0; i < 6; i++) n += fprintf(file, " %s", words[next() % 12]);
        n += fprintf(file, " %lu\n", (unsigned long)(next() % 100000));
        written += n;
    }
    must(fclose(file) == 0, "close");
}

/* Reads a file into memory in pieces, as a program that does not know its size does. */
static unsigned char *read_all(const char *name, size_t *bytes) {
    int file = open(name, O_RDONLY);
    must(file >= 0, name);
    size_t room = 1 << 20, have = 0;
    unsigned char *at = malloc(room);
    for (;;) {
        if (have == room) at = realloc(at, room *= 2);
        must(at != NULL, "memory");
        ssize_t got = read(file, at + have, room - have > 1 << 18 ? 1 << 18 : room - have);
        must(got >= 0, "read");
        if (got == 0) break;
        have += got;
    }
    close(file);
    *bytes = have;
    return at;
}

static int k_means(const char *name) {
    size_t bytes;
    unsigned char *points = read_all(name, &bytes);
    size_t count = bytes / DIMENSIONS;
    float centres[CENTRES][DIMENSIONS];
    uint32_t *of = malloc(count * sizeof *of);
    must(of != NULL && count > CENTRES, "points");
    for (int c = 0; c < CENTRES; c++)
        for (int d = 0; d < DIMENSIONS; d++) centres[c][d] = points[count / CENTRES * c * DIMENSIONS + d];
    for (int round = 0; round < ROUNDS; round++) {
        static double sums[CENTRES][DIMENSIONS];
        static size_t members[CENTRES];
        memset(sums, 0, sizeof sums);
        memset(members, 0, sizeof members);
        for (size_t p = 0; p < count; p += 8) { /* an eighth of the points: the emulator computes slowly */
            int best = 0;
            float least = INFINITY;
            for (int c = 0; c < CENTRES; c++) {
                float far = 0;
                for (int d = 0; d < DIMENSIONS; d++) {
                    float by = points[p * DIMENSIONS + d] - centres[c][d];
                    far += by * by;
                }
                if (far < least) least = far, best = c;
            }
            of[p] = best;
            members[best]++;
            for (int d = 0; d < DIMENSIONS; d++) sums[best][d] += points[p * DIMENSIONS + d];
        }
        for (int c = 0; c < CENTRES; c++)
            for (int d = 0; d < DIMENSIONS; d++)
                if (members[c]) centres[c][d] = sums[c][d] / members[c];
    }
    printf("k-means of %zu points: %.3f %.3f, %u\n", count, centres[0][0], centres[CENTRES - 1][0], of[8]);
    return 0;
}

/* The class of a line is whether its last number is even; its features are its words and digits. */
static int bayes(const char *name) {
    size_t bytes, lines = 0, right = 0;
    char *text = (char *)read_all(name, &bytes);
    static uint32_t seen[2][FEATURES], classes[2];
    for (char *line = text, *end; (end = memchr(line, '\n', text + bytes - line)) != NULL; line = end + 1) {
        int class = (end[-1] - '0') % 2;
        double score[2] = {0, 0};
        uint32_t hash = 0;
        for (char *at = line; at < end; at++) {
            hash = hash * 31 + (unsigned char)*at;
            if (*at != ' ' && at + 1 < end) continue;
            uint32_t feature = hash % FEATURES;
            hash = 0;
            if (line < text + bytes / 2) seen[class][feature]++;
            else
                for (int c = 0; c < 2; c++) score[c] += log((seen[c][feature] + 1.0) / (classes[c] + FEATURES));
        }
        if (line < text + bytes / 2) classes[class]++;
        else right += (score[1] > score[0]) == class, lines++;
    }
    printf("bayes: %zu of %zu lines\n", right, lines);
    return 0;
}

static int count(const char *name, char **program) {
    int status;
    uint64_t start = __rdtsc();
    pid_t child = fork();
    must(child >= 0, "fork");
    if (child == 0) {
        execv(program[0], program);
        _exit(125);
    }
    must(waitpid(child, &status, 0) == child, "waitpid");
    uint64_t spent = __rdtsc() - start;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        printf("cell-programs: FAILED %s: status %#x\n", name, status);
        return 1;
    }
    printf("cell-programs: %s %lu\n", name, (unsigned long)spent);
    return 0;
}

int main(int argc, char **words) {
    const char *what = argc > 2 ? words[1] : "";
    if (!strcmp(what, "make") && argc == 4) make(words[2], strtoul(words[3], NULL, 10));
    else if (!strcmp(what, "k-means")) return k_means(words[2]);
    else if (!strcmp(what, "bayes")) return bayes(words[2]);
    else if (!strcmp(what, "count") && argc > 3) return count(words[2], words + 3);
    else must(0, "words");
    return 0;
}
