/* A plugin of QEMU that counts the instructions of all programs and the kernel: whatever waits meanwhile, idling is none. When the
 * machine executes the mark of files.c, the count so far is a line of the file that the argument `marks` names. Blocks of instructions are
 * counted as they begin, also those that a fault leaves in their middle. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Of QEMU's interface for plugins, version 1, what is used here: Debian has no package of its header. */
typedef uint64_t plugin_id;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
extern void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, struct qemu_plugin_tb *));
extern void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, int add, void *to, uint64_t what);
extern void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, void (*)(unsigned, void *), int flags, void *);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
extern const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
extern size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
int qemu_plugin_version = 1;

static const char MARK[8] = "\x0f\x1f\x84\x00" "Gyre";
static uint64_t count;
static FILE *marks;

static void marked(unsigned core, void *unused) {
    fprintf(marks, "%lu\n", (unsigned long)count);
    fflush(marks);
}

static void translated(plugin_id id, struct qemu_plugin_tb *block) {
    size_t length = qemu_plugin_tb_n_insns(block);
    qemu_plugin_register_vcpu_tb_exec_inline(block, 0, &count, length);
    for (size_t i = 0; i < length; i++) {
        struct qemu_plugin_insn *one = qemu_plugin_tb_get_insn(block, i);
        if (qemu_plugin_insn_size(one) == sizeof MARK && !memcmp(qemu_plugin_insn_data(one), MARK, sizeof MARK))
            qemu_plugin_register_vcpu_insn_exec_cb(one, marked, 0, NULL);
    }
}

int qemu_plugin_install(plugin_id id, const void *about, int words, char **word) {
    if (words != 1 || strncmp(word[0], "marks=", 6) || !(marks = fopen(word[0] + 6, "w"))) return -1;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    return 0;
}
