/* Cells that have a network card by queues in their own memory: frames come and go; refusals; words in the queues that lie end the cell; cells that
 * die at any moment leave nothing behind. With `quiet` nobody sends frames to it. Without cells, or without a card for them, it says so.
 *     cell_card must CARD DISK       numbers of devices */
#include "../native/cell.h"

#define DEVICE_OPEN 0x1054
#define DEVICE_CLOSE 0x1055
#define ENTRIES 8
#define NEXT 1
#define WRITE 2
#define FRAME_MAX 1514

struct card_request {
    uint32_t size, device, entries, reserved;
    uint64_t receive[3], send[3];
};
struct card_facts {
    uint8_t mac[6];
    uint16_t frame_bytes_max;
    uint64_t reserved;
};
struct descriptor {
    uint64_t pa;
    uint32_t bytes;
    uint16_t flags, next;
};
struct ring {
    uint64_t at;
    struct descriptor *descriptors;
    struct { uint16_t flags; volatile uint16_t index; uint16_t entries[ENTRIES]; } *available;
    struct { volatile uint16_t flags, index; struct { uint32_t id, bytes; } entries[ENTRIES]; } *used;
    uint64_t data_at;
    uint8_t *data; /* 2 KiB for each entry */
};

static struct ring receive, send;
static struct card_facts facts;
static uint32_t card, disk;

static void *place(uint64_t pa) { return (void *)(cell_page->window + pa); }

static void makes(struct ring *ring) {
    ring->at = cell_take_frame();
    for (int i = 0; i < 2 + ENTRIES / 2; i++) cell_take_frame();
    ring->descriptors = place(ring->at);
    ring->available = place(ring->at + 4096);
    ring->used = place(ring->at + 8192);
    ring->data_at = ring->at + 12288;
    ring->data = place(ring->data_at);
}

static struct card_request request_of(uint32_t device) {
    struct card_request request = {sizeof request, device, ENTRIES, 0, {0}, {0}};
    for (int i = 0; i < 3; i++) request.receive[i] = receive.at + 4096 * i, request.send[i] = send.at + 4096 * i;
    return request;
}

static long asks(uint32_t number, uint64_t a, uint64_t b) {
    uint64_t words[7] = {number, a, b};
    return cell_call(words);
}

static long opens(struct card_request request) {
    static struct card_request kept;
    kept = request;
    return asks(DEVICE_OPEN, (uint64_t)&kept, (uint64_t)&facts);
}

/* Opens the card; the cell before may be on its way out. */
static void has_card(void) {
    makes(&receive);
    makes(&send);
    long answer = -EBUSY;
    for (int i = 0; i < 6000 && answer == -EBUSY; i++) {
        answer = opens(request_of(card));
        if (answer == -EBUSY) cell_exit(EXIT_IDLE, 10000000, 0);
    }
    CHECK(answer == 0 && facts.frame_bytes_max == FRAME_MAX && (facts.mac[0] & 1) == 0);
}

static void describes(struct ring *ring, int number, uint64_t pa, uint32_t bytes, uint16_t flags, uint16_t next) {
    ring->descriptors[number] = (struct descriptor){pa, bytes, flags, next};
}

static void announces(struct ring *ring, uint16_t index) {
    __atomic_store_n(&ring->available->index, index, __ATOMIC_SEQ_CST);
    cell_exit(EXIT_BELL, 0, 0);
}

static void offers(struct ring *ring, int number, uint32_t bytes, uint16_t flags) {
    describes(ring, number, ring->data_at + 2048 * number, bytes, flags, 0);
    ring->available->entries[ring->available->index % ENTRIES] = number;
    announces(ring, ring->available->index + 1);
}

static void ends(struct ring *ring) {
    for (int i = 0; i < 6000 && ring->used->index != ring->available->index; i++) cell_exit(EXIT_IDLE, 10000000, 0);
    CHECK(ring->used->index == ring->available->index);
}

/* A frame of the kind for experiments (IEEE 802, 88b5), to all, from this card. */
static void writes_frame(int number, int bytes) {
    uint8_t *frame = send.data + 2048 * number;
    memset(frame, 0xff, 6);
    memcpy(frame + 6, facts.mac, 6);
    frame[12] = 0x88, frame[13] = 0xb5;
    for (int i = 14; i < bytes; i++) frame[i] = i;
}

static void sends(int bytes) {
    int number = send.available->index % ENTRIES;
    writes_frame(number, bytes);
    offers(&send, number, bytes, 0);
    ends(&send);
}

static void is_right(void) {
    has_card();
    sends(60);
    sends(FRAME_MAX);
    sends(14);
    /* Too short, too long, another's name: answered, and the card goes on. */
    sends(13);
    sends(FRAME_MAX + 1);
    writes_frame(send.available->index % ENTRIES, 60);
    send.data[2048 * (send.available->index % ENTRIES) + 11] ^= 1;
    offers(&send, send.available->index % ENTRIES, 60, 0);
    ends(&send);
    /* In two parts. */
    writes_frame(0, 100);
    describes(&send, 0, send.data_at, 20, NEXT, 1);
    describes(&send, 1, send.data_at + 20, 80, 0, 0);
    send.available->entries[send.available->index % ENTRIES] = 0;
    announces(&send, send.available->index + 1);
    ends(&send);
    /* The lot with the queues stays; other devices, the other kind, lots of others are refused. */
    CHECK(cell_exit(EXIT_GIVE, cell_page->lot_list[0], 0) < 0);
    CHECK(opens(request_of(card)) == -EBUSY && opens(request_of(60)) == -ENODEV && opens(request_of(-1)) == -ENODEV);
    CHECK(opens(request_of(disk)) == -EINVAL);
    struct card_request wrong = request_of(card);
    wrong.size = 40; /* as for a disk */
    CHECK(opens(wrong) == -EINVAL);
#define WRONG(change) do { wrong = request_of(card); wrong.change; CHECK(opens(wrong) == -EINVAL); } while (0)
    WRONG(size = 0);
    WRONG(size = 63);
    WRONG(reserved = 1);
    WRONG(entries = 7);
    WRONG(entries = 128);
    WRONG(entries = 0);
    WRONG(send[0] += 8);
    WRONG(receive[2] = 0x100000);
    WRONG(send[1] = -2UL);
    CHECK(asks(DEVICE_OPEN, 8, 8) == -EFAULT);
    CHECK(asks(DEVICE_CLOSE, card, 0) == 0 && asks(DEVICE_CLOSE, card, 0) == -ENODEV);
    for (struct ring *ring = &receive; ring; ring = ring == &receive ? &send : NULL) memset(ring->used, 0, 4096), memset(ring->available, 0, 4096);
    CHECK(opens(request_of(card)) == 0);
    sends(60);
    cell_exit(EXIT_EXIT, 61, 0);
}

static uint64_t wrong_pa;
static int lie;

/* Lies about the queue for frames to send. */
static void lies(void) {
    has_card();
    writes_frame(0, 60);
    describes(&send, 0, lie == 0 ? wrong_pa : send.data_at, lie == 5 ? 0xffffffff : lie == 8 ? 0 : 60, lie == 1 || lie == 2 ? NEXT : lie == 3 ? WRITE : lie == 4 ? 4 : 0, lie == 1 ? ENTRIES : 0);
    send.available->entries[0] = lie == 6 ? 0xffff : 0;
    announces(&send, lie == 7 ? ENTRIES + 1 : lie == 9 ? 0xffff : 1);
    for (;;) cell_exit(EXIT_IDLE, 10000000, 0);
}

/* Lies about room for frames to come, which is found when one comes. It says that it is ready. */
static void lies_about_room(void) {
    has_card();
    describes(&receive, 0, lie == 0 ? wrong_pa : receive.data_at, lie == 2 ? FRAME_MAX - 1 : 2048, lie == 1 ? 0 : WRITE, 0);
    receive.available->entries[0] = 0;
    announces(&receive, lie == 3 ? ENTRIES + 1 : 1);
    for (;;) cell_exit(EXIT_IDLE, 10000000, 0);
}

static void dies_at_once(void) {
    has_card();
    for (int i = 0; i < ENTRIES; i++) writes_frame(i, FRAME_MAX), offers(&send, i, FRAME_MAX, 0);
    cell_exit(EXIT_EXIT, 62, 0);
}

static void crashes_in_the_middle(void) {
    struct cell_table none = {0};
    has_card();
    writes_frame(0, FRAME_MAX);
    offers(&send, 0, FRAME_MAX, 0);
    __asm__ volatile("lidt %0\n movb $0, 0" : : "m"(none));
}

/* Sends as fast as it can, and changes frames and descriptors while they are on their way. */
static void sends_for_ever(void) {
    has_card();
    for (int i = 0; i < ENTRIES; i++) offers(&receive, i, 2048, WRITE);
    for (uint16_t count = 0;; count++) {
        while ((uint16_t)(count - send.used->index) >= ENTRIES) cell_exit(EXIT_IDLE, 1000000, 0);
        int number = count % ENTRIES;
        writes_frame(number, 60);
        offers(&send, number, 60, 0);
        send.data[2048 * number + 6] ^= 0x40;
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
        done("cell_card");
        return 0;
    }
    CHECK(count == 4);
    card = atoi(arguments[2]);
    disk = atoi(arguments[3]);
    FAILS(syscall(DEVICE_OPEN, 0, 0), EPERM);
    CHECK(ends_by(is_right) == 61);
    const uint64_t places[] = {0, 0x100000, 0xfee00000, 0x100000000UL, -4096UL};
    for (lie = 0; lie < 10; lie++) {
        wrong_pa = places[lie % 5];
        CHECK(ends_by(lies) == -SIGSEGV);
    }
    lie = 0;
    for (unsigned i = 1; i < sizeof places / sizeof *places; i++) {
        wrong_pa = places[i];
        CHECK(ends_by(lies) == -SIGSEGV);
    }
    printf("frames please\n");
    for (lie = 0; lie < 4; lie++) CHECK(ends_by(lies_about_room) == -SIGSEGV);
    printf("no more frames please\n");
    CHECK(ends_by(dies_at_once) == 62);
    CHECK(ends_by(crashes_in_the_middle) == -SIGSEGV);
    for (int i = 0; i < 4; i++) {
        pid_t child = starts(sends_for_ever);
        sleep_ms(50 + 30 * i);
        kill(child, SIGKILL);
        CHECK(ended(child) == -SIGKILL);
    }
    CHECK(ends_by(is_right) == 61);
    done("cell_card");
    return 0;
}
