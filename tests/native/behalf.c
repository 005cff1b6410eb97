/* Work on behalf of others: what the peer of a channel has granted is spent and no more, ends when it should, and is passed on in short chains
 * only. Within one tenant; tests/boot/services has it between tenants. On Linux the calls are missing, and the test says so. */
#include "check.h"
#include "gyre.h"

#define MS 1000000LL


/* Works for so long. */
static void work(int64_t ns) {
    int64_t until = now_ns(CLOCK_MONOTONIC) + ns;
    while (now_ns(CLOCK_MONOTONIC) < until) {}
}

static void pair(const char *name, int *payer, int *service) {
    int listener = gyre_channel_listen(name, 0, 0);
    CHECK(listener >= 0);
    CHECK((*payer = gyre_channel_connect(name, 0, 0)) >= 0);
    CHECK((*service = gyre_channel_accept(listener, 0)) >= 0);
    CHECK(close(listener) == 0);
}

static void rights(void) {
    int payer, service;
    pair("rights", &payer, &service);
    FAILS(gyre_on_behalf(service), EACCES);
    FAILS(gyre_on_behalf(1000), EBADF);
    FAILS(gyre_on_behalf(0), EINVAL);
    FAILS(gyre_grant(payer, 3601000 * MS, -1), EINVAL);
    FAILS(gyre_grant(1000, MS, -1), EBADF);
    FAILS(gyre_grant(payer, MS, service), EACCES);
    /* So much that a pause of the host does not use it up. */
    CHECK(gyre_grant(payer, GYRE_GRANT_LOOK, -1) == 0 && gyre_grant(payer, 1000000 * MS, -1) == 0);
    /* only the peer may spend it */
    FAILS(gyre_on_behalf(payer), EACCES);
    int64_t left = gyre_on_behalf(service);
    CHECK(left > 900000 * MS && left <= 1000000 * MS);
    CHECK(gyre_on_behalf(-1) >= 0);
    /* taken back, it is gone at once */
    CHECK(gyre_grant(payer, 0, -1) > 0);
    FAILS(gyre_on_behalf(service), EACCES);
    CHECK(close(payer) == 0);
    FAILS(gyre_on_behalf(service), EPIPE);
    FAILS(gyre_grant(service, MS, -1), EPIPE);
    CHECK(close(service) == 0);
    CHECK(gyre_on_behalf(-1) == 0);
}

static void budget(void) {
    int payer, service;
    pair("budget", &payer, &service);
    CHECK(gyre_grant(payer, 5 * MS, -1) == 0);
    CHECK(gyre_on_behalf(service) > 0);
    work(200 * MS);
    int64_t spent = gyre_on_behalf(-1);
    CHECK(spent > 0 && spent <= 5 * MS);
    /* the machine may have been busy: go on until it is used up, never further */
    int64_t all = spent;
    while (gyre_grant(payer, GYRE_GRANT_LOOK, -1) > 0) {
        if (gyre_on_behalf(service) < 0) break;
        work(20 * MS);
        all += gyre_on_behalf(-1);
    }
    CHECK(all > 4 * MS && all <= 5 * MS + 1000);
    FAILS(gyre_on_behalf(service), EDQUOT);
    /* more is granted: it goes on */
    CHECK(gyre_grant(payer, 5 * MS, -1) == 0);
    CHECK(gyre_on_behalf(service) > 0 && gyre_on_behalf(-1) >= 0);
    CHECK(close(payer) == 0 && close(service) == 0);
}

static void waiting_ends_it(void) {
    int payer, service;
    char byte = 1;
    pair("waiting", &payer, &service);
    CHECK(gyre_grant(payer, 1000000 * MS, -1) == 0);
    CHECK(gyre_channel_write(payer, &byte, 1) == 1);
    CHECK(gyre_on_behalf(service) > 0);
    CHECK(read(service, &byte, 1) == 1);
    int64_t left = gyre_grant(payer, GYRE_GRANT_LOOK, -1);
    work(20 * MS);
    CHECK(gyre_grant(payer, GYRE_GRANT_LOOK, -1) == left);
    CHECK(gyre_on_behalf(-1) == 0);
    /* the payer goes in the middle */
    CHECK(gyre_on_behalf(service) > 0);
    CHECK(close(payer) == 0);
    work(5 * MS);
    CHECK(gyre_on_behalf(-1) >= 0);
    CHECK(close(service) == 0);
}

static void chains(void) {
    int payers[5], services[5];
    char name[16];
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "chain%d", i);
        pair(name, &payers[i], &services[i]);
    }
    CHECK(gyre_grant(payers[0], 20 * MS, -1) == 0);
    for (int i = 1; i < 4; i++) CHECK(gyre_grant(payers[i], 1000 * MS, services[i - 1]) == 0);
    FAILS(gyre_grant(payers[4], MS, services[3]), ELOOP);
    /* the first one's budget bounds the last */
    int64_t left = gyre_on_behalf(services[3]);
    CHECK(left > 0 && left <= 20 * MS);
    work(10 * MS);
    int64_t spent = gyre_on_behalf(-1);
    CHECK(spent >= 0 && gyre_grant(payers[0], GYRE_GRANT_LOOK, -1) <= 20 * MS - spent + 1000);
    /* and ends the chain */
    CHECK(gyre_grant(payers[0], 0, -1) >= 0);
    FAILS(gyre_on_behalf(services[3]), EDQUOT);
    for (int i = 0; i < 5; i++) CHECK(close(payers[i]) == 0 && close(services[i]) == 0);
}

int main(void) {
    if (gyre_on_behalf(-1) < 0 && errno == ENOSYS) {
        puts("no such calls");
        return 0;
    }
    rights();
    budget();
    waiting_ends_it();
    chains();
    done("behalf");
    return 0;
}
