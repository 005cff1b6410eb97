/* A block encoder that counts its frames as heartbeats: motion search, transform, quantisation and a count of bits on moving pictures.
 *
 * encoder encode SECONDS          frames one after the other; the content has phases that need 45 to 81 % of a core for 30 a second
 * encoder stream FPS PERCENT LARGE_FROM LARGE_TO SECONDS
 *                                 frames by the clock that need so much of a core, and 1.6 times as much from one second to another
 * encoder hog                     computes without end
 *
 * Each second of the machine's clock: "encoder: second FRAMES CPU_US LATE", at the end "encoder: done 0". On Linux the page of heartbeats is the
 * file /beats, which the agent reads.
 */
#include <fcntl.h>
#include <gyre.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define WIDTH 176
#define HEIGHT 144
#define EDGE 8

static uint8_t frames[2][HEIGHT][WIDTH];
static volatile long sink;
static uint64_t seed = 1;

static uint64_t clock_ns(clockid_t id) { struct timespec t; clock_gettime(id, &t); return t.tv_sec * 1000000000ull + t.tv_nsec; }
static uint64_t now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }
static uint64_t cpu_ns(void) { return clock_ns(CLOCK_PROCESS_CPUTIME_ID); }

static double chance(void)
{
	uint64_t z = seed += 0x9E3779B97F4A7C15ull;
	z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
	z = (z ^ z >> 27) * 0x94D049BB133111EBull;
	return ((z ^ z >> 31) >> 11) * (1.0 / 9007199254740992.0);
}

static double gauss(void) { return sqrt(-2 * log(1 - chance())) * cos(6.283185307179586 * chance()); }

/* A picture: a moving pattern with noise. */
static void picture(unsigned at, uint8_t (*to)[WIDTH])
{
	for (int y = 0; y < HEIGHT; y++)
		for (int x = 0; x < WIDTH; x++)
			to[y][x] = (uint8_t)(((x + at) ^ (y + at / 2)) + (seed >> (x & 31)));
}

static int difference(uint8_t (*now)[WIDTH], uint8_t (*before)[WIDTH], int x, int y, int dx, int dy)
{
	int sum = 0;
	for (int j = 0; j < EDGE; j++)
		for (int i = 0; i < EDGE; i++)
			sum += abs(now[y + j][x + i] - before[y + dy + j][x + dx + i]);
	return sum;
}

static int clamp(int value, int low, int high) { return value < low ? low : value > high ? high : value; }

/* The bits of a number. */
static int width(unsigned number) { return number ? 32 - __builtin_clz(number) : 0; }

/* Searches the block's motion, transforms what is left (Hadamard), quantises it and counts its bits. */
static long block(uint8_t (*now)[WIDTH], uint8_t (*before)[WIDTH], int x, int y, int places)
{
	int best = 1 << 30, best_x = 0, best_y = 0, left[EDGE][EDGE];
	for (int place = 0; place < places; place++) {
		int dx = clamp(place % 17 - 8, -x, WIDTH - EDGE - x), dy = clamp(place / 17 % 17 - 8, -y, HEIGHT - EDGE - y);
		int sum = difference(now, before, x, y, dx, dy);
		if (sum < best) best = sum, best_x = dx, best_y = dy;
	}
	for (int j = 0; j < EDGE; j++)
		for (int i = 0; i < EDGE; i++)
			left[j][i] = now[y + j][x + i] - before[y + best_y + j][x + best_x + i];
	for (int step = 1; step < EDGE; step *= 2)
		for (int j = 0; j < EDGE; j++)
			for (int i = 0; i < EDGE; i++)
				if (!(i & step)) {
					int a = left[j][i], b = left[j][i + step];
					left[j][i] = a + b, left[j][i + step] = a - b;
				}
	long bits = 0;
	for (int j = 0; j < EDGE; j++)
		for (int i = 0; i < EDGE; i++)
			bits += 2 * width(abs(left[j][i]) / 16);
	return bits;
}

/* Encodes the next frame, with about so many places searched for each block. */
static void encode(double places)
{
	static unsigned at;
	uint8_t (*now)[WIDTH] = frames[at & 1], (*before)[WIDTH] = frames[(at & 1) ^ 1];
	picture(at, now);
	/* Parts of a place are places of some of the blocks. */
	double due = 0;
	for (int y = 0; y < HEIGHT; y += EDGE)
		for (int x = 0; x < WIDTH; x += EDGE) {
			due += places;
			sink += block(now, before, x, y, (int)due);
			due -= (int)due;
		}
	at++;
}

/* CPU time of a frame without places, and of a place in all blocks. */
static double base_ns, place_ns;

static void calibrate(void)
{
	double cost[2];
	for (int round = 0; round < 2; round++) {
		uint64_t begun = cpu_ns();
		/* with the noise of later pictures, of which bits are left to count */
		for (int frame = 0; frame < 4; frame++) chance(), encode(round ? 40 : 4);
		cost[round] = (cpu_ns() - begun) / 4.0;
	}
	place_ns = (cost[1] - cost[0]) / 36;
	base_ns = cost[0] - 4 * place_ns;
}

/* A frame that takes so much CPU time. Later pictures leave more bits to count than those of the calibration: it follows them. */
static void frame_of(double ns)
{
	uint64_t begun = cpu_ns();
	encode(fmax(0, (ns - base_ns) / place_ns));
	base_ns += 0.05 * (cpu_ns() - begun - ns);
}

/* The part of a core that 30 frames a second need: phases of a film. */
static double need(double time)
{
	double t = fmod(time, 100), part;
	if (t < 18) part = 0.93;
	else if (t < 40) part = 0.52;
	else if (t < 52) part = 0.52 + (t - 40) / 12 * 0.30;
	else if (t < 70) part = 0.82;
	else if (t < 85) part = 0.55;
	else part = 0.62;
	return part * 0.87;
}

static double varied(unsigned frame)
{
	const double sigma = 0.25;
	return exp(sigma * gauss() - sigma * sigma / 2) * (frame % 30 ? 0.9724 : 1.8);
}

static struct gyre_beats *page_of(uint64_t kind, uint64_t number)
{
	struct gyre_beats *page = gyre_goal("frames", kind, number);
	if (page) return page;
	int file = open("/beats", O_RDWR | O_CREAT | O_TRUNC, 0644);
	if (file < 0 || ftruncate(file, 4096)) return NULL;
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (page == MAP_FAILED) return NULL;
	page->version = 1;
	return page;
}

/* A second that has passed. */
static uint64_t second_began, second_cpu;
static unsigned second_frames, second_late;

static void count(int is_late)
{
	second_frames++;
	second_late += is_late;
	uint64_t now = now_ns();
	if (now - second_began < 1000000000ull) return;
	uint64_t cpu = cpu_ns();
	/* By a second exactly, whenever its last frame ended. */
	double scale = 1e9 / (now - second_began);
	printf("encoder: second %.0f %.0f %u\n", second_frames * scale * 1000, (cpu - second_cpu) * scale / 1000, second_late);
	fflush(stdout);
	second_began = now, second_cpu = cpu, second_frames = second_late = 0;
}

static void film(double seconds)
{
	struct gyre_beats *page = page_of(GYRE_GOAL_RATE, 30000);
	if (!page) { puts("encoder: FAILED no page of heartbeats"); return; }
	uint64_t begun = now_ns(), last = begun;
	second_began = begun, second_cpu = cpu_ns();
	for (unsigned frame = 0; now_ns() - begun < seconds * 1e9; frame++) {
		frame_of(need((now_ns() - begun) / 1e9) / 30 * 1e9 * varied(frame));
		uint64_t now = now_ns();
		gyre_beat(page, now - last);
		last = now;
		count(0);
	}
}

static void stream(double fps, double part, double from, double to, double seconds)
{
	struct gyre_beats *page = page_of(GYRE_GOAL_NONE, 0);
	if (!page) { puts("encoder: FAILED no page of heartbeats"); return; }
	uint64_t begun = now_ns(), period = (uint64_t)(1e9 / fps);
	second_began = begun, second_cpu = cpu_ns();
	for (uint64_t frame = 0; frame * period < seconds * 1e9; frame++) {
		uint64_t due = begun + frame * period, now = now_ns();
		if (now < due) {
			struct timespec pause = {(due - now) / 1000000000, (due - now) % 1000000000};
			nanosleep(&pause, NULL);
		}
		double at = (due - begun) / 1e9, size = at >= from && at < to ? 1.6 : 1;
		frame_of(part * size / fps * 1e9 * exp(0.05 * gauss()));
		uint64_t took = now_ns() - due;
		gyre_beat(page, took);
		count(took > period);
	}
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "hog")) for (;;) sink++;
	calibrate();
	if (argc == 3 && !strcmp(argv[1], "encode")) film(atof(argv[2]));
	else if (argc == 7 && !strcmp(argv[1], "stream")) stream(atof(argv[2]), atof(argv[3]) / 100, atof(argv[4]), atof(argv[5]), atof(argv[6]));
	else return puts("encoder: FAILED usage"), 2;
	puts("encoder: done 0");
	fflush(stdout);
	/* The machine is ended from outside; the figures stay to be read. */
	for (;;) pause();
}
