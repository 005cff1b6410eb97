/* Counts heartbeats of its own: `beats RATE_PER_S SECONDS`, or `beats lie SECONDS`, which then takes some back. Alone it counts a few. */
#include <gyre.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int main(int argc, char **argv) {
    if (argc != 1 && argc != 3) return 2;
    int lies = argc == 3 && !strcmp(argv[1], "lie");
    long rate = lies || argc == 1 ? 20 : atol(argv[1]), seconds = argc == 1 ? 1 : atol(argv[2]);
    if (gyre_goal("a name of more than 24 bytes", GYRE_GOAL_NONE, 0) || errno != EINVAL) return 3;
    if (gyre_goal("x", 77, 1) || errno != EINVAL) return 4;
    if (gyre_goal("x", GYRE_GOAL_RATE, 0) || errno != EINVAL) return 5;
    struct gyre_beats *page = gyre_goal("frames", GYRE_GOAL_RATE, 15000);
    if (!page) return 6;
    if (page->version != 1 || page->beats) return 7;
    struct timespec pause = {0, 1000000000L / rate};
    puts("beats");
    fflush(stdout);
    for (long beat = 0; beat < rate * seconds; beat++) {
        nanosleep(&pause, NULL);
        gyre_beat(page, 5000000);
        if (lies && beat % rate == rate - 1) page->beats -= rate + 1;
    }
    if (argc == 1 && (page->beats != 20 || page->sum_ns != 100000000 || page->last_ns != 5000000)) return 8;
    if (argc == 1) puts("ok beats");
    return 0;
}
