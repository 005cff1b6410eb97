/* Shared memory by number (System V): made, attached, inherited, detached, removed while attached. */
#include "check.h"
#include <limits.h>
#include <sys/ipc.h>
#include <sys/resource.h>
#include <sys/shm.h>

static int mode_of(int id) {
    struct shmid_ds status;
    CHECK(shmctl(id, IPC_STAT, &status) == 0);
    return status.shm_perm.mode;
}

static void limit_to(long bytes) {
    struct rlimit limit = {bytes, 1 << 20};
    CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
}

/* SHM_LOCK by a user that may lock two pages in all. */
static void locks_of_a_user(int others) {
    limit_to(2 * 4096);
    CHECK(setgid(54323) == 0 && setuid(54323) == 0);
    int two = shmget(IPC_PRIVATE, 4097, 0600), one = shmget(IPC_PRIVATE, 1, 0600);
    CHECK(two >= 0 && one >= 0);
    FAILS(shmctl(others, SHM_LOCK, NULL), EPERM);
    FAILS(shmctl(others, SHM_UNLOCK, NULL), EPERM);
    CHECK(shmctl(two, SHM_LOCK, NULL) == 0 && mode_of(two) == (SHM_LOCKED | 0600));
    CHECK(shmctl(two, SHM_LOCK, NULL) == 0 && mode_of(one) == 0600);
    FAILS(shmctl(one, SHM_LOCK, NULL), ENOMEM);
    CHECK(mode_of(one) == 0600);
    pid_t child = fork();
    if (child == 0) {
        FAILS(shmctl(one, SHM_LOCK, NULL), ENOMEM); // the limit is the user's
        CHECK(shmctl(two, SHM_UNLOCK, NULL) == 0 && shmctl(one, SHM_LOCK, NULL) == 0);
        _exit(0);
    }
    CHECK(status_of(child) == 0);
    CHECK(mode_of(one) == (SHM_LOCKED | 0600) && mode_of(two) == 0600); // whoever has ended
    FAILS(shmctl(two, SHM_LOCK, NULL), ENOMEM);
    struct shmid_ds status;
    CHECK(shmctl(one, IPC_STAT, &status) == 0);
    status.shm_perm.mode = 0400;
    CHECK(shmctl(one, IPC_SET, &status) == 0 && mode_of(one) == (SHM_LOCKED | 0400));
    limit_to(0);
    FAILS(shmctl(two, SHM_LOCK, NULL), EPERM);
    FAILS(shmctl(one, SHM_LOCK, NULL), EPERM);
    CHECK(shmctl(one, SHM_UNLOCK, NULL) == 0 && shmctl(one, SHM_UNLOCK, NULL) == 0 && mode_of(one) == 0400);
    limit_to(2 * 4096 + 4095);
    // A segment that is locked and removed is given back with its last attachment.
    CHECK(shmctl(two, SHM_LOCK, NULL) == 0);
    char *shown = shmat(two, NULL, 0);
    CHECK(shown != (void *)-1 && shmctl(two, IPC_RMID, NULL) == 0);
    FAILS(shmctl(one, SHM_LOCK, NULL), ENOMEM);
    CHECK(shmdt(shown) == 0 && shmctl(one, SHM_LOCK, NULL) == 0 && shmctl(one, IPC_RMID, NULL) == 0);
    FAILS(shmctl(one, SHM_LOCK, NULL), EINVAL);
    FAILS(shmctl(-1, SHM_LOCK, NULL), EINVAL);
    one = shmget(IPC_PRIVATE, 2 * 4096, 0600);
    CHECK(shmctl(one, SHM_LOCK, NULL) == 0 && shmctl(one, IPC_RMID, NULL) == 0);
    _exit(0);
}

static void locks(void) {
    if (geteuid() != 0) return;
    int id = shmget(IPC_PRIVATE, 1 << 20, 0666);
    CHECK(id >= 0);
    pid_t child = fork();
    if (child == 0) {
        limit_to(0); // CAP_IPC_LOCK knows no limit
        CHECK(shmctl(id, SHM_LOCK, NULL) == 0 && mode_of(id) == (SHM_LOCKED | 0666));
        _exit(0);
    }
    CHECK(status_of(child) == 0 && shmctl(id, SHM_UNLOCK, NULL) == 0 && mode_of(id) == 0666);
    child = fork();
    if (child == 0) locks_of_a_user(id);
    CHECK(status_of(child) == 0 && shmctl(id, IPC_RMID, NULL) == 0);
}

int main(void) {
    locks();
    struct shmid_ds status;
    key_t key = 0x67797265;
    int id = shmget(IPC_PRIVATE, 10000, IPC_CREAT | 0600);
    CHECK(id >= 0);
    char *one = shmat(id, NULL, 0), *two = shmat(id, NULL, SHM_RDONLY);
    CHECK(one != (void *)-1 && two != (void *)-1 && one != two);
    strcpy(one + 9000, "shared");
    CHECK(!strcmp(two + 9000, "shared") && one[0] == 0);
    CHECK(shmctl(id, IPC_STAT, &status) == 0);
    CHECK(status.shm_segsz == 10000 && status.shm_nattch == 2 && status.shm_cpid == getpid() && (status.shm_perm.mode & 0777) == 0600);
    pid_t child = fork();
    if (child == 0) {
        strcpy(one, "from the child");
        CHECK(shmdt(one) == 0 && !strcmp(two, "from the child"));
        _exit(0);
    }
    CHECK(status_of(child) == 0 && !strcmp(two, "from the child"));
    child = fork();
    if (child == 0) {
        *(volatile char *)two = 1;
        _exit(0);
    }
    int ended = status_of(child);
    CHECK(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGSEGV);
    CHECK(shmdt(two) == 0);
    FAILS(shmdt(two), EINVAL);
    FAILS(shmdt(one + 4096), EINVAL);
    /* Found by its index, too. */
    struct shminfo limits;
    struct shm_info sums;
    int highest = shmctl(0, IPC_INFO, (void *)&limits), found = 0;
    CHECK(highest >= 0 && limits.shmmni == 4096 && limits.shmmin == 1 && limits.shmmax >= 1 << 30);
    CHECK(shmctl(0, SHM_INFO, (void *)&sums) == highest && sums.used_ids >= 1 && sums.shm_tot >= 3);
    for (int index = 0; index <= highest; index++) {
        if (shmctl(index, SHM_STAT, &status) == id) found += status.shm_segsz == 10000 && shmctl(index, 15 /* SHM_STAT_ANY */, &status) == id;
    }
    CHECK(found == 1);
    FAILS(shmctl(highest + 1, SHM_STAT, &status), EINVAL);
    FAILS(shmctl(id, 99, &status), EINVAL);
    FAILS(shmctl(-1, IPC_INFO, (void *)&limits), EINVAL);
    FAILS(shmctl(INT_MIN, SHM_STAT, &status), EINVAL);
    CHECK(shmctl(id, IPC_RMID, NULL) == 0);
    CHECK(!strcmp(one, "from the child"));
    CHECK(shmctl(id, IPC_STAT, &status) == 0 && status.shm_nattch == 1 && status.shm_perm.mode & SHM_DEST);
    CHECK((two = shmat(id, NULL, 0)) != (void *)-1 && shmdt(two) == 0);
    CHECK(shmdt(one) == 0);
    FAILS(shmat(id, NULL, 0), EINVAL);
    FAILS(shmctl(id, IPC_STAT, &status), EINVAL);

    id = shmget(key, 4096, IPC_CREAT | IPC_EXCL | 0640);
    CHECK(id >= 0 && shmget(key, 100, 0) == id);
    FAILS(shmget(key, 4096, IPC_CREAT | IPC_EXCL | 0640), EEXIST);
    FAILS(shmget(key, 5000, 0), EINVAL);
    FAILS(shmget(key + 1, 100, 0), ENOENT);
    FAILS(shmget(IPC_PRIVATE, 0, 0600), EINVAL);
    char *high = (char *)0x600000000000;
    CHECK(shmat(id, high + 5, SHM_RND) == high);
    FAILS(shmat(id, high, 0), EINVAL);
    FAILS(shmat(id, high + 4096 + 5, 0), EINVAL);
    CHECK(shmdt(high) == 0 && shmctl(id, IPC_RMID, NULL) == 0);
    FAILS(shmget(key, 100, 0), ENOENT);
    done("segments");
    return 0;
}
