/* Faults without a handler end a process, and those with one do not: the kernel says why in its log (tests/boot/programs/words.py looks there). */
#include "check.h"
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/prctl.h>

static char *page;
static sigjmp_buf back;

static void reads_nothing(void) { *(volatile char *)0x10; }
static void writes_what_is_read_only(void) { *(volatile char *)page = 1; }
static void jumps_to_nothing(void) { ((void (*)(void))0x20)(); }
static void runs_no_instruction(void) { __asm__ volatile("ud2"); }
static void is_no_address(void) { *(volatile char *)0x8000000000000000; }

static void reads_behind_a_file(void) {
    int file = memfd_create("short", 0);
    CHECK(file >= 0);
    *(volatile char *)mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
}

static void ends_by(int signal, void (*fault)(void)) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        prctl(PR_SET_NAME, "a\033[Hfault\n");
        fault();
        _exit(0);
    }
    int status = status_of(child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == signal);
}

static void on_fault(int signal) { siglongjmp(back, signal); }

static void with_a_handler(void) {
    CHECK(signal(SIGSEGV, on_fault) != SIG_ERR);
    int came = sigsetjmp(back, 1);
    if (came == 0) *(volatile char *)0x1230;
    CHECK(came == SIGSEGV && signal(SIGSEGV, SIG_DFL) != SIG_ERR);
}

int main(void) {
    page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    ends_by(SIGSEGV, reads_nothing);
    ends_by(SIGSEGV, writes_what_is_read_only);
    ends_by(SIGSEGV, jumps_to_nothing);
    ends_by(SIGSEGV, is_no_address);
    ends_by(SIGILL, runs_no_instruction);
    ends_by(SIGBUS, reads_behind_a_file);
    with_a_handler();
    done("faults");
    return 0;
}
