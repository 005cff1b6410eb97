/* Cells that have a disk through a queue in their own memory: requests that are right are done; refusals; words in the queue that lie end the
 * cell; cells that die in the middle of requests leave nothing behind. Without cells, or without a disk for them, it says so. */
#include "../native/cell.h"

#define DEVICE_OPEN 0x1054
#define DEVICE_CLOSE 0x1055
#define ENTRIES 8
#define NEXT 1
#define WRITE 2

struct device_request {
    uint32_t size, device, entries, reserved;
    uint64_t descriptors, available, used;
};
struct device_facts {
    uint64_t sectors;
    uint32_t request_bytes_max, is_read_only;
};
struct descriptor {
    uint64_t pa;
    uint32_t bytes;
    uint16_t flags, next;
};
static struct ring {
    uint16_t flags;
    volatile uint16_t index;
    uint16_t entries[ENTRIES];
} *available;
static struct used_ring {
    volatile uint16_t flags, index;
    struct { uint32_t id, bytes; } entries[ENTRIES];
} *used;
static struct descriptor *descriptors;
static struct { uint32_t kind, reserved; uint64_t sector; volatile uint8_t status; } *header;
static uint8_t *data;
static uint64_t first, data_at, header_at;
static struct device_facts facts;

static void *place(uint64_t pa) { return (void *)(cell_page->window + pa); }

static struct device_request request_of(uint32_t device) {
    return (struct device_request){sizeof(struct device_request), device, ENTRIES, 0, first, first + 4096, first + 8192};
}

static long asks(uint32_t number, uint64_t a, uint64_t b) {
    uint64_t words[7] = {number, a, b};
    return cell_call(words);
}

static long opens(struct device_request request) {
    static struct device_request kept;
    kept = request;
    return asks(DEVICE_OPEN, (uint64_t)&kept, (uint64_t)&facts);
}

/* The queue, a header and 64 KiB of data, in frames of the first lot in a row. */
static void makes_a_queue(void) {
    first = cell_take_frame();
    for (int i = 0; i < 3 + 16; i++) cell_take_frame();
    descriptors = place(first);
    available = place(first + 4096);
    used = place(first + 8192);
    header = place(header_at = first + 12288);
    data = place(data_at = first + 16384);
}

/* Opens the disk; the cell before may be on its way out. */
static void has_disk(void) {
    makes_a_queue();
    long answer = -EBUSY;
    for (int i = 0; i < 500 && answer == -EBUSY; i++) {
        answer = opens(request_of(0));
        if (answer == -EBUSY) cell_exit(EXIT_IDLE, 10000000, 0);
    }
    CHECK(answer == 0 && facts.sectors >= 1024);
}

static void describes(int number, uint64_t pa, uint32_t bytes, uint16_t flags, uint16_t next) {
    descriptors[number] = (struct descriptor){pa, bytes, flags, next};
}

static void announces(uint16_t index) {
    __atomic_store_n(&available->index, index, __ATOMIC_SEQ_CST);
    cell_exit(EXIT_BELL, 0, 0);
}

static void begins(uint32_t kind, uint64_t sector, uint32_t bytes) {
    header->kind = kind;
    header->sector = sector;
    header->status = 0xff;
    describes(0, header_at, 16, NEXT, 1);
    describes(1, data_at, bytes, NEXT | (kind == 0 ? WRITE : 0), 2);
    describes(2, header_at + 16, 1, WRITE, 0);
    available->entries[available->index % ENTRIES] = 0;
    announces(available->index + 1);
}

static int ends(void) {
    for (int i = 0; i < 2000 && used->index != available->index; i++) cell_exit(EXIT_IDLE, 10000000, 0);
    CHECK(used->index == available->index);
    return header->status;
}

static int does(uint32_t kind, uint64_t sector, uint32_t bytes) {
    begins(kind, sector, bytes);
    return ends();
}

static void is_right(void) {
    has_disk();
    for (int i = 0; i < 65536; i++) data[i] = i * 31 + (i >> 8);
    CHECK(does(1, 64, 65536) == 0 && does(4, 0, 512) == 0);
    memset(data, 0, 65536);
    CHECK(does(0, 64, 65536) == 0);
    for (int i = 0; i < 65536; i++) CHECK(data[i] == (uint8_t)(i * 31 + (i >> 8)));
    CHECK(does(0, facts.sectors, 512) == 1 && does(0, facts.sectors - 1, 1024) == 1 && does(1, -1UL, 512) == 1);
    CHECK(does(0, 0, 511) == 1 && does(77, 0, 512) == 2);
    /* A lot with the queue stays; a second opening, other devices and lots of others are refused. */
    CHECK(cell_exit(EXIT_GIVE, cell_page->lot_list[0], 0) < 0);
    CHECK(opens(request_of(0)) == -EBUSY && opens(request_of(9)) == -ENODEV && opens(request_of(-1)) == -ENODEV);
    CHECK(opens(request_of(1)) == -EINVAL); /* a card */
    struct device_request wrong = request_of(0);
    wrong.size = 0;
    CHECK(opens(wrong) == -EINVAL);
    CHECK(asks(DEVICE_OPEN, 8, 8) == -EFAULT && asks(DEVICE_CLOSE, 1, 0) == -ENODEV);
    CHECK(asks(DEVICE_CLOSE, 0, 0) == 0 && asks(DEVICE_CLOSE, 0, 0) == -ENODEV);
    wrong = request_of(0);
    wrong.entries = 7;
    CHECK(opens(wrong) == -EINVAL);
    wrong = request_of(0);
    wrong.used = 0x100000;
    CHECK(opens(wrong) == -EINVAL);
    memset(used, 0, 4096);
    memset(available, 0, 4096);
    CHECK(opens(request_of(0)) == 0 && does(0, 64, 512) == 0 && data[5] == 155);
    cell_exit(EXIT_EXIT, 61, 0);
}

/* Data in a second lot, which is given back in the middle of a read into it: the read is done before the lot is anybody else's. If the lot is
 * gone before the kernel has taken the request, that names memory of others: the end. */
static void gives_what_it_reads_into(void) {
    has_disk();
    CHECK(cell_exit(EXIT_MORE, LOT, 0) == 0);
    uint64_t lot = cell_page->lot_list[1];
    uint64_t own = data_at;
    data_at = lot;
    CHECK(does(0, 64, 65536) == 0 && ((uint8_t *)place(lot))[5] == 155);
    begins(0, 64, 65536);
    CHECK(cell_exit(EXIT_GIVE, lot, 0) == 0 && ends() == 0);
    data_at = own;
    CHECK(does(0, 64, 512) == 0);
    cell_exit(EXIT_EXIT, 63, 0);
}

/* The lie of a cell about its queue. */
static uint64_t wrong_pa;
static int lie;

static void lies(void) {
    has_disk();
    header->kind = 0;
    header->sector = 0;
    describes(0, header_at, 16, NEXT, 1);
    describes(1, lie == 0 ? wrong_pa : data_at, 512, NEXT | WRITE, lie == 1 ? ENTRIES : lie == 2 ? 0 : 2);
    describes(2, lie == 3 ? wrong_pa : header_at + 16, 1, WRITE, 0);
    if (lie == 4) describes(0, wrong_pa, 16, NEXT, 1);
    if (lie == 5) describes(1, data_at, 0xffffffff, NEXT | WRITE, 2);
    available->entries[0] = lie == 6 ? 0xffff : 0;
    announces(lie == 7 ? ENTRIES + 1 : 1);
    for (;;) cell_exit(EXIT_IDLE, 10000000, 0);
}

static void dies_at_once(void) {
    has_disk();
    begins(0, 0, 65536);
    cell_exit(EXIT_EXIT, 62, 0);
}

static void crashes_in_the_middle(void) {
    struct cell_table none = {0};
    has_disk();
    begins(1, 512, 65536);
    __asm__ volatile("lidt %0\n movb $0, 0" : : "m"(none));
}

static void asks_for_ever(void) {
    has_disk();
    for (;;) {
        begins(available->index & 1, 512, 65536);
        ends();
    }
}

static pid_t starts(void (*work)(void)) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        CHECK(cell_enter_soon(LOT) == 0);
        work();
        cell_exit(EXIT_EXIT, 97, 0);
    }
    return child;
}

static int ended(pid_t child) {
    int status = status_of(child);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static int ends_by(void (*work)(void)) { return ended(starts(work)); }

int main(int count, char **arguments) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!cell_is_offered(count, arguments)) {
        done("cell_disk");
        return 0;
    }
    FAILS(syscall(DEVICE_OPEN, 0, 0), EPERM);
    FAILS(syscall(DEVICE_CLOSE, 0, 0), EPERM);
    CHECK(ends_by(is_right) == 61);
    const uint64_t places[] = {0, 0x100000, 0xfee00000, 0x100000000UL, -4096UL};
    for (lie = 0; lie < 8; lie++) {
        wrong_pa = places[lie % 5];
        CHECK(ends_by(lies) == -SIGSEGV);
    }
    for (unsigned i = 0; i < sizeof places / sizeof *places; i++) {
        lie = i % 2 ? 0 : 3;
        wrong_pa = places[i];
        CHECK(ends_by(lies) == -SIGSEGV);
    }
    for (int i = 0; i < 3; i++) {
        int end = ends_by(gives_what_it_reads_into);
        CHECK(end == 63 || end == -SIGSEGV);
    }
    CHECK(ends_by(dies_at_once) == 62);
    CHECK(ends_by(crashes_in_the_middle) == -SIGSEGV);
    for (int i = 0; i < 4; i++) {
        pid_t child = starts(asks_for_ever);
        sleep_ms(50 + 30 * i);
        kill(child, SIGKILL);
        CHECK(ended(child) == -SIGKILL);
    }
    CHECK(ends_by(is_right) == 61);
    done("cell_disk");
    return 0;
}
