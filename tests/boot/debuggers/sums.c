/* A program to be debugged: it adds in its first thread and in another one, and waits or fails if it is told to. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct pair { int left, right; };

static int add(struct pair pair) {
    int sum = pair.left + pair.right;
    return sum;
}

static void *work(void *unused) { return (void *)(long)add((struct pair){3, 4}); }

static volatile int is_told_to_go;

static void wait_for_word(void) {
    while (!is_told_to_go) usleep(1000);
}

static void fail(volatile char *nowhere) { *nowhere = 1; }

int main(int count, char **words) {
    pthread_t thread;
    void *other;
    int sum = add((struct pair){1, 2});
    if (pthread_create(&thread, NULL, work, NULL) != 0 || pthread_join(thread, &other) != 0) return 1;
    printf("sums: %d %ld\n", sum, (long)other);
    fflush(stdout);
    if (count > 1 && strcmp(words[1], "wait") == 0) wait_for_word();
    if (count > 1 && strcmp(words[1], "fail") == 0) fail(NULL);
    return sum;
}
