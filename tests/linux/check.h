/* What every program of this folder uses: a check that names its line, and a directory of its own. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                                                   \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            printf("FAILED %s:%d: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno); \
            exit(1);                                                                       \
        }                                                                                  \
    } while (0)

/* The call fails with this error. */
#define FAILS(call, error) CHECK((call) == -1 && errno == (error))

/* Enters a fresh directory under /tmp. */
static inline void enter_directory(void)
{
    char name[] = "/tmp/gyre-test-XXXXXX";
    CHECK(mkdtemp(name) != NULL);
    CHECK(chdir(name) == 0);
}

/* Writes a file. */
static inline void make_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    CHECK(fputs(text, file) >= 0);
    CHECK(fclose(file) == 0);
}
