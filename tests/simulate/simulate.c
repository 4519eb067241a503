/*
 * gemmd-simulate - runs a daemon with clients, devices and accidents in virtual time, on one
 * thread, and checks what the daemon promises. The seed and the revision of the sources decide all
 * that happens, so that a seed that fails can be replayed.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <time.h>
#include <unistd.h>

#include "tests/simulate/daemon.h"
#include "tests/simulate/requests.h"
#include "tests/simulate/threads.h"

enum { REQUESTS = 400, DAEMONS_MAX = 3 };
static const uint64_t MS = 1000000;

/* What the clients of a run do. */
struct load {
    uint64_t requests; /* that are left to send */
    uint32_t tensors, jobs, leave, timeouts, large, tiled, other_name, verified, batched, others;
    bool one_name; /* tenants use the same tensors, so that their works share stacks */
};

struct world {
    struct daemon daemons[DAEMONS_MAX];
    uint32_t started;
    struct daemon_traits traits;
    struct load load;
    uint32_t clients;
    struct totals totals;
};

/* What one client is like. */
struct client {
    struct world *world;
    uint32_t tenant, burst, rows, resident, name;
    uint64_t pause_ns;
};

static struct daemon *serving(struct world *world)
{
    return &world->daemons[world->started - 1];
}

/* ---- what the seed decides ---- */

static uint32_t one_of(uint32_t a, uint32_t b, uint32_t c)
{
    const uint32_t all[] = {a, b, c};
    return all[draw(3)];
}

static struct device_traits draw_device(bool computes, bool copies, bool accidents, bool one_model,
                                        double flop_ns)
{
    return (struct device_traits){.streams = 1 + (uint32_t)draw(4),
                                  .computes_in_submit = computes,
                                  .copies_early = copies,
                                  .launch_ns = one_of(10000, 400000, 4000000),
                                  .one_model = one_model,
                                  .flop_ns = flop_ns,
                                  .fails = accidents ? one_of(0, 0, 20000) : 0,
                                  .stalls = accidents ? one_of(0, 0, 4000) : 0,
                                  .is_lost = accidents ? one_of(0, 0, 3000) : 0,
                                  .stall_ns = one_of(50, 700, 3000) * MS};
}

static void draw_daemon(struct daemon_traits *traits)
{
    const bool computes = draw(4) == 0, copies = !computes && draw(4) == 0;
    const bool accidents = draw(2) == 0, one_model = draw(2) == 0;
    const double flop_ns = draw(2) == 0 ? 0.01 : 1;
    *traits = (struct daemon_traits){
        .tenants = 1 + (uint32_t)draw(TENANTS_SIMULATED),
        .devices = computes ? 1 : 1 + (uint32_t)draw(DEVICES_SIMULATED),
        .io_threads = 1 + (uint32_t)draw(IO_THREADS_MAX),
        .max_launch_works = one_of(1, 8, 64),
        .busy_poll_us = one_of(0, 0, 200),
        .limits = {.requests = one_of(6, 60, 400), .bytes = 40 << 20},
        .jobs = {.max_jobs = one_of(2, 10, 40),
                 .max_bytes = 8 << 20,
                 .ttl_ns = one_of(200, 2000, 60000) * MS},
        .stall_limit_ns = one_of(600, 1000, 2000) * MS,
        .tenant_tensor_bytes = one_of(0, 0, 16 << 10),
        .reloads = one_of(0, 0, 20000),
        .verify_share = one_of(0, 0, 300000),
        .interference = {.preempted = one_of(0, 2000, 60000),
                         .failed_allocations = accidents ? one_of(0, 0, 10000) : 0},
    };
    traits->limits.tenants = traits->jobs.tenants = traits->tenants;
    traits->limits.tenant_requests = draw(3) == 0 ? traits->limits.requests / 2 : 0;
    for (uint32_t i = 0; i < traits->devices; i++)
        traits->device[i] = draw_device(computes, copies, accidents, one_model, flop_ns);
}

static struct load draw_load(uint64_t requests)
{
    return (struct load){.requests = requests,
                         .tensors = one_of(0, 60000, 300000),
                         .jobs = one_of(0, 0, 300000),
                         .leave = one_of(0, 0, 200000),
                         .timeouts = one_of(0, 200000, 900000),
                         .large = one_of(0, 0, 20000),
                         .tiled = one_of(0, 500000, 1000000),
                         .other_name = one_of(20000, 200000, 800000),
                         .verified = one_of(0, 300000, 1000000),
                         .batched = one_of(0, 20000, 200000),
                         .others = one_of(0, 0, 400000),
                         .one_name = draw(2) == 0};
}

/* Some runs are made so that all tenants have many works waiting that share stacks: the order of
 * such works is hardest to get right. */
static void draw_crowd(struct world *world)
{
    struct daemon_traits *traits = &world->traits;
    traits->tenants = traits->limits.tenants = traits->jobs.tenants = TENANTS_SIMULATED;
    traits->devices = 1;
    traits->device[0] = draw_device(false, false, false, false, 0.01);
    traits->device[0].launch_ns = one_of(1, 4, 10) * MS;
    traits->max_launch_works = one_of(8, 64, 64);
    traits->limits.requests = 400;
    traits->limits.tenant_requests = 0;
    traits->reloads = 0;
    traits->tenant_tensor_bytes = traits->verify_share = 0;
    world->load.requests *= 2;
    world->load.one_name = true;
    world->load.tiled = 1000000;
    world->load.tensors = 5000;
    world->load.other_name = 20000;
    world->load.jobs = world->load.timeouts = world->load.large = 0;
    world->load.verified = world->load.batched = world->load.others = 0;
}

/* Some runs are made so that several devices compute many calls together, some of them wrong. */
static void draw_division(struct world *world)
{
    struct daemon_traits *traits = &world->traits;
    traits->devices = 2 + (uint32_t)draw(DEVICES_SIMULATED - 1);
    for (uint32_t i = 0; i < traits->devices; i++)
        traits->device[i] = draw_device(false, false, draw(2) == 0, true, 10);
    traits->limits.requests = 60;
    world->load.batched = 700000;
    world->load.others = one_of(0, 300000, 300000);
    world->load.verified = one_of(0, 300000, 1000000);
}

static struct client draw_client(struct world *world, uint32_t tenant)
{
    return (struct client){.world = world,
                           .tenant = tenant,
                           .burst = one_of(1, 10, 100),
                           .rows = one_of(1, 8, 60),
                           .name = tenant % NAMES,
                           .resident = one_of(200000, 900000, 1000000),
                           .pause_ns = one_of(1, 50, 900) * MS};
}

static void draw_other(struct request_traits *t)
{
    static const enum operation_number all[] = {OPERATION_REDUCE, OPERATION_SOFTMAX,
                                                OPERATION_ATTENTION, OPERATION_CONV2D};
    t->operation = all[draw(4)];
    if (t->operation != OPERATION_ATTENTION && t->operation != OPERATION_CONV2D)
        return;
    t->batch = 1 + draw(4);
    if (t->operation == OPERATION_ATTENTION)
        t->n = 1 + draw(4);
    else
        t->k = 1 + draw(6);
}

static struct request_traits draw_request(const struct client *client)
{
    const struct world *world = client->world;
    const struct load *load = &world->load;
    struct request_traits t = {
        .kind = REQUEST_PRODUCT,
        .tenant = client->tenant,
        .owner = load->one_name ? 0 : client->tenant,
        .priority = draw(3) == 0 ? (uint32_t)draw(PRIORITIES) : 4,
        .m = 1 + draw(client->rows),
        .n = 1 + draw(20),
        .k = 1 + draw(30),
        .batch = 1,
        .b = -1,
        .verified = draw_one_in(load->verified),
        .tiled = draw_one_in(load->tiled),
        .timeout_ms = draw_one_in(load->timeouts) ? 1 + draw(one_of(5, 60, 2000)) : 0,
        .is_watched = draw(2) == 0,
        .chunk_bytes = 1 + draw(4096),
        .pause_ns = draw(3) == 0 ? draw(3 * MS) : 0,
        .leaves_ns = draw_one_in(load->leave) ? now_ns() + draw(30 * MS) : 0,
        .hash_ns = draw(4) == 0 ? draw(60 * MS) : 0,
        .send_ns = draw(4) == 0 ? draw(20 * MS) : 0,
    };
    if (draw_one_in(load->tensors)) {
        t.kind = draw(20) == 0 ? REQUEST_DELETE : REQUEST_PUT;
        t.b = (int32_t)draw(NAMES);
        t.m = 1;
        t.replicates = draw(2) == 0;
    } else if (load->tensors > 0 && draw_one_in(client->resident)) {
        t.b = (int32_t)(draw_one_in(load->other_name) ? draw(NAMES) : client->name);
    } else if (world->traits.device[0].copies_early && draw_one_in(load->large)) {
        t.m = 1050; /* more than EARLY_COPY_BODY_BYTES */
        t.k = 1000;
        t.n = 2;
        t.chunk_bytes = 300000 + draw(2000000);
        t.leaves_ns = draw(3) == 0 ? now_ns() + draw(10 * MS) : 0;
    } else if (draw_one_in(load->others)) {
        draw_other(&t);
    } else if (draw_one_in(load->batched)) {
        t.batch = 2 + draw(14);
        t.m = t.n = t.k = 16 + draw(16);
        t.tiled = true; /* so that several devices may compute the product */
    }
    t.chunk_bytes += t.batch * t.m * t.k; /* a few pieces at most */
    if (t.kind == REQUEST_PUT || t.b >= 0) {
        t.k = RESIDENT_K;
        t.n = RESIDENT_N;
    }
    if (t.kind == REQUEST_PRODUCT && draw_one_in(load->jobs))
        t.kind = REQUEST_JOB;
    return t;
}

/* ---- the run ---- */

/* Stores all tensors of a client, on a daemon that has none yet. */
static void store_tensors(const struct client *client)
{
    struct world *world = client->world;
    for (uint32_t i = 0; i < NAMES; i++) {
        struct request_traits traits = draw_request(client);
        traits.kind = REQUEST_PUT;
        traits.operation = OPERATION_GEMM;
        traits.batch = 1;
        traits.b = (int32_t)i;
        traits.m = 1;
        traits.k = RESIDENT_K;
        traits.n = RESIDENT_N;
        request_send(serving(world), &traits, &world->totals);
    }
    sleep_ns(50 * MS);
}

static void client_run(void *argument)
{
    const struct client *client = argument;
    struct world *world = client->world;
    struct load *load = &world->load;
    uint32_t known = 0; /* daemons that have the client's tensors */
    while (load->requests > 0) {
        if (load->tensors > 0 && known < world->started) {
            known = world->started;
            store_tensors(client);
        }
        uint64_t burst = 1 + draw(client->burst);
        for (; burst > 0 && load->requests > 0; burst--) {
            load->requests--; /* at once: other clients send while this one sleeps */
            const struct request_traits traits = draw_request(client);
            request_send(serving(world), &traits, &world->totals);
            if (draw(4) == 0)
                sleep_ns(draw(200000));
        }
        sleep_ns(draw(client->pause_ns) + (draw(12) == 0 ? draw(3000 * MS) : 0));
    }
    world->clients--;
}

static void start_daemon(struct world *world)
{
    daemon_start(&world->daemons[world->started], &world->traits, world->started);
    world->started++;
}

/* Lets a new daemon take over, as after SIGUSR2 and after the loss of all devices. */
static void hand_over(struct world *world)
{
    struct daemon *old = serving(world);
    trace("a new daemon takes over");
    for (uint32_t i = 0; world->started + 1 == DAEMONS_MAX && i < world->traits.devices; i++)
        world->traits.device[i].is_lost = 0; /* the last one */
    start_daemon(world);
    daemon_drain(old);
}

static void world_run(void *argument)
{
    struct world *world = argument;
    struct client clients[TENANTS_SIMULATED];
    draw_daemon(&world->traits);
    world->load = draw_load(world->load.requests);
    const uint64_t kind = draw(8);
    if (kind < 2)
        draw_crowd(world);
    else if (kind == 2)
        draw_division(world);
    for (uint32_t i = 0; i < world->traits.devices && world->load.verified == 1000000; i++)
        world->traits.device[i].wrong = one_of(0, 10000, 100000);
    start_daemon(world);
    world->clients = world->traits.tenants;
    for (uint32_t i = 0; i < world->traits.tenants; i++) {
        clients[i] = draw_client(world, i);
        threads_start("client", client_run, &clients[i]);
    }
    while (world->clients > 0) {
        sleep_ns(100 * MS);
        const bool wanted = serving(world)->closing || draw(200) == 0;
        if (wanted && world->started < DAEMONS_MAX)
            hand_over(world);
    }
    daemon_drain(serving(world));
    for (uint32_t i = 0; i < world->started; i++)
        while (!world->daemons[i].ended || threads_alive() > 1)
            sleep_ns(100 * MS);
}

/* ---- the program ---- */

static void print_help(void)
{
    puts("Usage: gemmd-simulate [--seed N] [--seeds COUNT] [--requests N] [--trace]\n\n"
         "Runs the scheduler, the stores of jobs and tensors and the calls of the API of gemmd "
         "with\n"
         "simulated clients and devices in virtual time, and checks what they promise. Exits with\n"
         "status 1 and a line that names the seed, the virtual time and the broken promise.\n\n"
         "  --seed N      the first seed (default: 1)\n"
         "  --seeds N     how many seeds, one after another (default: 1)\n"
         "  --requests N  requests of all clients together (default: 400)\n"
         "  --trace       print every event, with its virtual time");
}

static uint64_t number_of(const char *text)
{
    char *end;
    errno = 0;
    const uint64_t number = text != NULL ? strtoull(text, &end, 10) : 0;
    if (text == NULL || *text == '\0' || *end != '\0' || errno != 0) {
        fprintf(stderr, "gemmd-simulate: '%s' is not a number\n", text != NULL ? text : "");
        exit(2);
    }
    return number;
}

static void add(struct totals *all, const struct totals *one)
{
    all->sent += one->sent;
    all->answered += one->answered;
    all->refused += one->refused;
    all->failed += one->failed;
    all->expired += one->expired;
    all->left += one->left;
    all->jobs += one->jobs;
    all->tensors += one->tensors;
    all->divided += one->divided;
}

/* Addresses decide nothing that a user sees, but may decide what runs first. */
static void fix_addresses(char *argv[])
{
    const int persona = personality(0xffffffff);
    if (persona < 0 || (persona & ADDR_NO_RANDOMIZE) != 0 ||
        personality((unsigned long)persona | ADDR_NO_RANDOMIZE) < 0)
        return;
    execv("/proc/self/exe", argv);
}

int main(int argc, char *argv[])
{
    uint64_t seed = 1, seeds = 1, requests = REQUESTS;
    struct totals totals = {0};
    fix_addresses(argv);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--seed") == 0) {
            seed = number_of(argv[++i]);
        } else if (strcmp(argv[i], "--seeds") == 0) {
            seeds = number_of(argv[++i]);
        } else if (strcmp(argv[i], "--requests") == 0) {
            requests = number_of(argv[++i]);
        } else if (strcmp(argv[i], "--trace") == 0) {
            threads_trace(true);
        } else {
            print_help();
            return strcmp(argv[i], "--help") == 0 ? 0 : 2;
        }
    }
    static struct world world;
    for (uint64_t i = 0; i < seeds; i++) {
        world = (struct world){.load.requests = requests};
        threads_run(seed + i, world_run, &world);
        add(&totals, &world.totals);
    }
    printf("gemmd-simulate: %" PRIu64 " seeds from %" PRIu64 ": %" PRIu64 " requests, %" PRIu64
           " answered, %" PRIu64 " of them by several devices, %" PRIu64 " jobs, %" PRIu64
           " tensors, %" PRIu64 " refused, %" PRIu64 " expired, %" PRIu64 " left, %" PRIu64
           " failed; digest %016" PRIx64 "\n",
           seeds, seed, totals.sent, totals.answered, totals.divided, totals.jobs, totals.tensors,
           totals.refused, totals.expired, totals.left, totals.failed, threads_digest());
    return 0;
}
