/* A plugin for QEMU's interpreter that counts instructions by the kind of span they ran in: scheduling, interrupt, idle, or handling.
 *
 * Arguments: marks=FILE (lines "ADDRESS KIND": instructions of the kernel that end a span of kind 0 to 2, or, 3, begin the next one), out=FILE,
 * while=FILE (counts while that file exists; writes OUT when it is gone). spans.py makes and reads these files. The functions are those of
 * QEMU's plugin interface, version 1 (docs/devel/tcg-plugins.rst of QEMU 7.2), declared here as Debian has no package with their header. */
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PUBLIC __attribute__((visibility("default")))
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef uint64_t plugin_id;
typedef void (*when_run)(unsigned core, void *data);
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, when_run, int flags, void *);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, when_run, int flags, void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
PUBLIC int qemu_plugin_version = 1;

enum { KINDS = 4, CORES = 16, BEGINS = 3, HANDLING = 3 };
enum { BLOCKS_MAX = 1 << 22, PLACES = 1 << 23, PENDING_MAX = 1 << 22, MARKS_MAX = 1 << 16 };

struct block { uint64_t address; uint32_t instructions; uint64_t runs[KINDS]; };
struct mark { uint64_t address; int kind; };
/* A core: the blocks that it has run since its span began, and the kind that the span turned out to be. */
struct core { uint32_t *pending; uint32_t count; int kind; uint64_t spans[KINDS]; } __attribute__((aligned(256)));

static struct block *blocks;
static uint32_t block_count, *places;
static struct mark marks[MARKS_MAX];
static int mark_count;
static struct core cores[CORES];
static volatile bool counts;
static const char *out_path, *while_path;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int by_address(const void *a, const void *b)
{
	uint64_t x = ((const struct mark *)a)->address, y = ((const struct mark *)b)->address;
	return x < y ? -1 : x > y;
}

static void end_span(struct core *core, int kind)
{
	for (uint32_t i = 0; counts && i < core->count; i++)
		__atomic_fetch_add(&blocks[core->pending[i]].runs[kind], 1, __ATOMIC_RELAXED);
	core->spans[kind] += counts;
	core->count = 0;
}

static void ran(unsigned number, void *block)
{
	struct core *core = &cores[number % CORES];
	if (core->count == PENDING_MAX)
		end_span(core, HANDLING);
	core->pending[core->count++] = (uint32_t)(uintptr_t)block;
}

static void passed_mark(unsigned number, void *kind)
{
	struct core *core = &cores[number % CORES];
	if ((uintptr_t)kind != BEGINS) {
		core->kind = (int)(uintptr_t)kind;
		return;
	}
	end_span(core, core->kind);
	core->kind = HANDLING;
}

/* Blocks of programs are one for each length: their addresses say nothing here. */
static uint32_t find(uint64_t address, uint32_t instructions)
{
	uint64_t key = address ? address : instructions;
	uint32_t place = (uint32_t)((key * 0x9e3779b97f4a7c15ull + instructions) >> 40) % PLACES;
	for (;; place = (place + 1) % PLACES) {
		uint32_t found = places[place];
		if (found && blocks[found].address == address && blocks[found].instructions == instructions)
			return found;
		if (!found && block_count + 1 < BLOCKS_MAX) {
			places[place] = ++block_count;
			blocks[block_count].address = address;
			blocks[block_count].instructions = instructions;
			return block_count;
		}
		if (!found)
			return 0;
	}
}

static void translated(plugin_id id, struct qemu_plugin_tb *tb)
{
	uint64_t address = qemu_plugin_tb_vaddr(tb);
	uint32_t instructions = qemu_plugin_tb_n_insns(tb);
	bool is_kernel = address >> 47;
	pthread_mutex_lock(&lock);
	uint32_t block = find(is_kernel ? address : 0, instructions);
	pthread_mutex_unlock(&lock);
	qemu_plugin_register_vcpu_tb_exec_cb(tb, ran, 0, (void *)(uintptr_t)block);
	for (uint32_t i = 0; is_kernel && i < instructions; i++) {
		struct qemu_plugin_insn *one = qemu_plugin_tb_get_insn(tb, i);
		struct mark wanted = { qemu_plugin_insn_vaddr(one), 0 };
		struct mark *mark = bsearch(&wanted, marks, mark_count, sizeof(wanted), by_address);
		if (mark)
			qemu_plugin_register_vcpu_insn_exec_cb(one, passed_mark, 0, (void *)(uintptr_t)mark->kind);
	}
}

static void write_out(void)
{
	FILE *out = fopen(out_path, "w");
	uint64_t spans[KINDS] = { 0 };
	if (!out)
		return;
	for (int at = 0; at < CORES * KINDS; at++)
		spans[at % KINDS] += cores[at / KINDS].spans[at % KINDS];
	fprintf(out, "spans %lu %lu %lu %lu\n", spans[0], spans[1], spans[2], spans[3]);
	for (uint32_t i = 1; i <= block_count; i++) {
		struct block *b = &blocks[i];
		if (b->runs[0] | b->runs[1] | b->runs[2] | b->runs[3])
			fprintf(out, "%lx %u %lu %lu %lu %lu\n", b->address, b->instructions, b->runs[0], b->runs[1], b->runs[2], b->runs[3]);
	}
	fclose(out);
}

static void *watch(void *unused)
{
	struct timespec pause = { 0, 50000000 };
	for (bool was = false;; was = counts) {
		nanosleep(&pause, NULL);
		FILE *file = fopen(while_path, "r");
		counts = file != NULL;
		if (file)
			fclose(file);
		if (was && !counts)
			write_out();
	}
	return unused;
}

static const char *value(const char *argument, const char *name)
{
	size_t length = strlen(name);
	return strncmp(argument, name, length) ? NULL : strdup(argument + length);
}

PUBLIC int qemu_plugin_install(plugin_id id, const void *machine, int count, char **arguments)
{
	const char *marks_path = NULL;
	for (int i = 0; i < count; i++) {
		const char *found;
		if ((found = value(arguments[i], "marks=")))
			marks_path = found;
		if ((found = value(arguments[i], "out=")))
			out_path = found;
		if ((found = value(arguments[i], "while=")))
			while_path = found;
	}
	FILE *file = marks_path ? fopen(marks_path, "r") : NULL;
	if (!file || !out_path || !while_path) {
		fprintf(stderr, "spans: expected marks=FILE,out=FILE,while=FILE\n");
		return 1;
	}
	while (mark_count < MARKS_MAX && fscanf(file, "%lx %d", &marks[mark_count].address, &marks[mark_count].kind) == 2)
		mark_count++;
	fclose(file);
	qsort(marks, mark_count, sizeof(marks[0]), by_address);
	blocks = calloc(BLOCKS_MAX, sizeof(blocks[0]));
	places = calloc(PLACES, sizeof(places[0]));
	for (int core = 0; core < CORES; core++) {
		cores[core].pending = malloc(PENDING_MAX * sizeof(uint32_t));
		cores[core].kind = HANDLING;
	}
	pthread_t thread;
	if (!blocks || !places || pthread_create(&thread, NULL, watch, NULL))
		return 1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
