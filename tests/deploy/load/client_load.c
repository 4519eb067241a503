#include "tests/deploy/load/client_load.h"

#include <gemmd/gemmd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/deploy/load/random.h"

/* A tensor may be missing again after its upload, if the next daemon is another one. */
enum { UPLOADS_MAX = 20 };

/* A request in flight, and the upload that it may need. */
struct slot {
    const struct matrix_product *product;
    float *c; /* where the answer goes */
    uint32_t uploads;
    bool is_uploading;
};

struct runner {
    struct load *load;
    struct gemmd_client *client;
    struct slot *slots;
};

static void add(atomic_ullong *count, unsigned long long number)
{
    atomic_fetch_add_explicit(count, number, memory_order_relaxed);
}

static const struct matrix_product *choose_resident(struct load *load)
{
    const double at = random_fraction(&load->random);
    uint32_t low = 0, high = load->matrices->tensors - 1;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (load->tensor_chances[middle] > at)
            high = middle;
        else
            low = middle + 1;
    }
    return &load->matrices->resident[(size_t)low * MATRICES_ROWS +
                                     random_next(&load->random) % MATRICES_ROWS];
}

static const struct matrix_product *choose(struct load *load)
{
    const uint64_t of_100 = random_next(&load->random) % 100;
    if (of_100 < 75)
        return choose_resident(load);
    if (of_100 < 95)
        return &load->matrices->small[random_next(&load->random) % MATRICES_SMALL];
    return &load->matrices->large[random_next(&load->random) % MATRICES_LARGE];
}

static void describe_put(struct gemmd_tensor_put *put, const struct matrix_product *product)
{
    gemmd_tensor_put_init(put, sizeof *put);
    put->name = product->name;
    put->rank = 2;
    put->dims[0] = product->k;
    put->dims[1] = product->n;
    put->data = product->b;
    put->evictable = 1;
}

static void fail(struct runner *runner, const char *what, const struct gemmd_error_info *error)
{
    add(&runner->load->counts->lost, 1);
    fprintf(stderr, "%s failed after %u attempts: %s (%s, status %d)\n", what, error->attempts,
            error->message, gemmd_error_name(error->code), error->http_status);
}

static bool submit_product(struct runner *runner, struct slot *slot)
{
    const struct matrix_product *product = slot->product;
    struct gemmd_error_info error;
    struct gemmd_gemm gemm;
    gemmd_gemm_init(&gemm, sizeof gemm);
    gemm.m = product->m;
    gemm.n = product->n;
    gemm.k = product->k;
    gemm.a = product->a;
    if (product->name[0] != '\0')
        gemm.b_tensor = product->name;
    else
        gemm.b = product->b;
    gemm.c_bytes = (uint64_t)product->m * product->n * sizeof *slot->c;
    gemm.c = memset(slot->c, 0xff, gemm.c_bytes);
    gemm.user = slot;
    slot->is_uploading = false;
    if (gemmd_gemm_submit(runner->client, &gemm, &error) != NULL)
        return true;
    fail(runner, "a product", &error);
    return false;
}

static bool submit_upload(struct runner *runner, struct slot *slot)
{
    struct gemmd_error_info error;
    struct gemmd_tensor_put put;
    describe_put(&put, slot->product);
    put.user = slot;
    slot->is_uploading = true;
    slot->uploads++;
    if (gemmd_tensor_put_submit(runner->client, &put, &error) != NULL)
        return true;
    fail(runner, "an upload", &error);
    return false;
}

static void begin_request(struct runner *runner, struct slot *slot)
{
    do {
        if (atomic_load(runner->load->stopping))
            return;
        slot->product = choose(runner->load);
        slot->uploads = 0;
        add(&runner->load->counts->sent, 1);
    } while (!submit_product(runner, slot));
}

static void check_answer(struct runner *runner, const struct slot *slot)
{
    const struct matrix_product *product = slot->product;
    struct load_counts *counts = runner->load->counts;
    if (memcmp(slot->c, product->c, (size_t)product->m * product->n * sizeof *slot->c) == 0) {
        add(&counts->answered, 1);
    } else {
        add(&counts->wrong, 1);
        fprintf(stderr, "a product of %u x %u x %u with tensor '%s' is wrong\n", product->m,
                product->n, product->k, product->name);
    }
    if (product->name[0] != '\0')
        add(&counts->resident, 1);
}

/* Takes a request that is done. Returns true if the slot has another one in flight for the same
 * product, or false if the product is over. */
static bool take(struct runner *runner, struct gemmd_request *request, struct slot *slot)
{
    struct load_counts *counts = runner->load->counts;
    struct gemmd_error_info error;
    struct gemmd_result result;
    gemmd_result_init(&result, sizeof result);
    const enum gemmd_error code = gemmd_request_result(request, &result, &error);
    add(&counts->repeats, (code == GEMMD_OK ? result.attempts : error.attempts) - 1);
    gemmd_request_free(request);
    if (code == GEMMD_OK && slot->is_uploading) {
        add(&counts->uploads, result.put != GEMMD_PUT_UNCHANGED);
        return submit_product(runner, slot);
    }
    if (code == GEMMD_ERR_NOT_FOUND && slot->product->name[0] != '\0' &&
        slot->uploads < UPLOADS_MAX) {
        add(&counts->misses, 1);
        return submit_upload(runner, slot);
    }
    if (code == GEMMD_OK)
        check_answer(runner, slot);
    else
        fail(runner, slot->is_uploading ? "an upload" : "a product", &error);
    return false;
}

static struct gemmd_client *connect_client(const struct load *load)
{
    struct gemmd_error_info error;
    struct gemmd_options options;
    gemmd_options_init(&options, sizeof options);
    options.url = load->url;
    options.max_in_flight = load->in_flight;
    struct gemmd_client *client = gemmd_client_new(&options, &error);
    if (client == NULL)
        fprintf(stderr, "%s\n", error.message);
    return client;
}

bool client_load_upload(const struct load *load)
{
    struct gemmd_error_info error = {0};
    struct gemmd_client *client = connect_client(load);
    bool right = client != NULL;
    for (uint32_t i = 0; right && i < load->matrices->tensors; i++) {
        struct gemmd_tensor_put put;
        describe_put(&put, &load->matrices->resident[(size_t)i * MATRICES_ROWS]);
        right = gemmd_tensor_put(client, &put, NULL, &error) == GEMMD_OK;
    }
    if (!right)
        fprintf(stderr, "the first upload failed: %s\n", error.message);
    gemmd_client_free(client);
    return right;
}

/* The most floats that an answer has. */
static size_t longest_answer(const struct matrices *matrices)
{
    size_t longest = 1;
    for (int i = 0; i < MATRICES_LARGE; i++) {
        const size_t floats = (size_t)matrices->large[i].m * matrices->large[i].n;
        longest = floats > longest ? floats : longest;
    }
    return longest;
}

void *client_load_run(void *argument)
{
    struct load *load = argument;
    const size_t longest = longest_answer(load->matrices);
    struct runner runner = {load, connect_client(load),
                            calloc(load->in_flight, sizeof(struct slot))};
    float *answers = calloc(load->in_flight * longest, sizeof *answers);
    struct gemmd_request *request;
    if (runner.client == NULL || runner.slots == NULL || answers == NULL) {
        fprintf(stderr, "a thread of the load cannot start\n");
        add(&load->counts->lost, 1);
        goto out;
    }
    for (uint32_t i = 0; i < load->in_flight; i++) {
        runner.slots[i].c = answers + i * longest;
        begin_request(&runner, &runner.slots[i]);
    }
    while ((request = gemmd_wait_any(runner.client, -1)) != NULL) {
        struct slot *slot = gemmd_request_user(request);
        if (!take(&runner, request, slot))
            begin_request(&runner, slot);
    }
out:
    gemmd_client_free(runner.client);
    free(runner.slots);
    free(answers);
    return NULL;
}
