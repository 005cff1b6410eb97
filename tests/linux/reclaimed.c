// Mapped files larger than their tenant's memory: what a program shows of them goes and comes back, written or not; nothing is lost and nobody is
// killed. usage: reclaimed [MiB of the file, 16] [folder, /tmp]. On Linux it means something in a control group with less memory.
#include "check.h"
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#define PAGE 4096UL
#define KEPT (4UL << 20)
#define LOCKED 64UL

static unsigned long state = 88172645463325252UL;
static unsigned long next_random(void) {
    state ^= state << 13, state ^= state >> 7;
    return state ^= state << 17;
}

static size_t bytes, pages;
static int file;

// Each page begins with its number and its version.
struct head { unsigned long number, version; };
static unsigned long *versions;

static struct head *head_of(char *map, size_t page) { return (struct head *)(map + page * PAGE); }

static void right(char *map, size_t page) {
    struct head *head = head_of(map, page);
    CHECK(head->number == page && head->version == versions[page]);
}

static void renew(char *map, size_t page) { *head_of(map, page) = (struct head){page, ++versions[page]}; }

static void written_by_calls(void) {
    static struct head block[65536 / sizeof(struct head)];
    for (size_t at = 0; at < bytes; at += sizeof block) {
        for (size_t in = 0; in < sizeof block; in += PAGE)
            block[in / sizeof *block].number = (at + in) / PAGE;
        CHECK(pwrite(file, block, sizeof block, at) == sizeof block);
    }
}

static char *map_file(int rights, int flags) {
    char *map = mmap(NULL, bytes, rights, flags, file, 0);
    CHECK(map != MAP_FAILED);
    return map;
}

static void seen(void) {
    for (int flags = MAP_SHARED; flags <= MAP_PRIVATE; flags++) {
        char *map = map_file(PROT_READ, flags);
        for (size_t page = 0; page < pages; page++)
            right(map, page);
        for (size_t count = 0; count < pages / 4; count++)
            right(map, next_random() % pages);
        CHECK(munmap(map, bytes) == 0);
    }
}

static void changed(void) {
    char *map = map_file(PROT_READ | PROT_WRITE, MAP_SHARED), *other = map_file(PROT_READ, MAP_SHARED);
    for (size_t page = 0; page < pages; page++)
        renew(map, page);
    for (size_t count = 0; count < pages / 4; count++) {
        size_t page = next_random() % pages;
        right(other, page), renew(map, page), right(other, page);
    }
    CHECK(msync(map, bytes, MS_SYNC) == 0);
    for (size_t page = 0; page < pages; page += 3)
        renew(map, page);
    CHECK(munmap(map, bytes) == 0);
    for (size_t page = 0; page < pages; page++) {
        struct head head;
        CHECK(pread(file, &head, sizeof head, page * PAGE) == sizeof head && head.number == page && head.version == versions[page]);
        if (page % 16 == 0)
            right(other, page);
    }
    CHECK(munmap(other, bytes) == 0);
}

// A program's own copies of pages stay its own.
static void copied(void) {
    // Of a tenant with less memory nothing larger is promised: its program says that it knows.
    char *map = map_file(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE);
    for (size_t page = 0; page < pages; page += 32)
        head_of(map, page)->version = 1000 + page;
    pid_t child = fork();
    CHECK(child >= 0);
    for (size_t page = 0; page < pages; page++) {
        if (page % 32 == 0)
            CHECK(head_of(map, page)->number == page && head_of(map, page)->version == 1000 + page);
        else
            right(map, page);
    }
    if (child == 0)
        _exit(0);
    CHECK(status_of(child) == 0);
    CHECK(munmap(map, bytes) == 0);
}

static int is_resident(char *address) {
    unsigned char vector;
    CHECK(mincore(address, PAGE, &vector) == 0);
    return vector & 1;
}

static void advised(void) {
    char *map = map_file(PROT_READ | PROT_WRITE, MAP_SHARED);
    CHECK(mlock(map, LOCKED * PAGE) == 0);
    for (size_t page = 0; page < pages; page++)
        right(map, page);
    for (size_t page = 0; page < LOCKED; page++)
        CHECK(is_resident(map + page * PAGE));
    FAILS(madvise(map, 2 * LOCKED * PAGE, MADV_COLD), EINVAL);
    FAILS(madvise(map, 2 * LOCKED * PAGE, MADV_PAGEOUT), EINVAL);
    CHECK(munlock(map, LOCKED * PAGE) == 0);
    for (size_t page = 0; page < LOCKED; page++)
        renew(map, page);
    CHECK(madvise(map, LOCKED * PAGE, MADV_COLD) == 0 && madvise(map, LOCKED * PAGE, MADV_PAGEOUT) == 0);
    for (size_t page = 0; page < LOCKED; page++)
        right(map, page);
    CHECK(munmap(map, bytes) == 0);
}

static sigjmp_buf back;
static void on_bus(int number) { siglongjmp(back, number); }

// A file that becomes shorter beneath its mapping, and one that is deleted.
static void cut(void) {
    char *map = map_file(PROT_READ | PROT_WRITE, MAP_SHARED);
    for (size_t page = 0; page < pages; page++)
        renew(map, page);
    CHECK(ftruncate(file, bytes / 2) == 0);
    signal(SIGBUS, on_bus);
    if (sigsetjmp(back, 1) == 0) {
        renew(map, pages / 2);
        CHECK(!"a page behind the end was written");
    }
    versions[pages / 2]--;
    CHECK(ftruncate(file, bytes) == 0);
    for (size_t page = 0; page < pages / 2; page++)
        right(map, page);
    for (size_t page = pages / 2; page < pages; page++)
        CHECK(head_of(map, page)->number == 0 && head_of(map, page)->version == 0);
    CHECK(munmap(map, bytes) == 0);
}

// Pages that a file loses while they are shown are free at once: whoever needs memory beside gets it.
static void cut_beside_another(void) {
    int *ends = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(ends != MAP_FAILED);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (child == 0 && !__atomic_load_n(ends, __ATOMIC_ACQUIRE)) {
        char *own = mmap(NULL, KEPT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(own != MAP_FAILED);
        for (size_t at = 0; at < KEPT; at += PAGE)
            own[at] = 1;
        CHECK(munmap(own, KEPT) == 0);
    }
    if (child == 0)
        _exit(0);
    char *map = map_file(PROT_READ | PROT_WRITE, MAP_SHARED);
    for (int round = 0; round < 4; round++) {
        for (size_t page = 0; page < pages; page++)
            head_of(map, page)->version = 1;
        CHECK(ftruncate(file, 0) == 0 && ftruncate(file, bytes) == 0);
    }
    __atomic_store_n(ends, 1, __ATOMIC_RELEASE);
    CHECK(status_of(child) == 0);
    CHECK(munmap(map, bytes) == 0 && munmap(ends, PAGE) == 0);
}

int main(int count, char **arguments) {
    bytes = (count > 1 ? strtoul(arguments[1], NULL, 10) : 16) << 20, pages = bytes / PAGE;
    char path[256];
    snprintf(path, sizeof path, "%s/reclaimed-%d", count > 2 ? arguments[2] : "/tmp", getpid());
    file = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    CHECK(file >= 0 && unlink(path) == 0);
    versions = calloc(pages, sizeof *versions);
    char *kept = mmap(NULL, KEPT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(versions && kept != MAP_FAILED);
    memset(kept, 77, KEPT);
    written_by_calls(), seen(), changed(), copied(), advised(), cut(), cut_beside_another();
    for (size_t at = 0; at < KEPT; at++)
        CHECK(kept[at] == 77);
    done("reclaimed");
    return 0;
}
