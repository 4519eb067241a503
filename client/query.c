#include "client/query.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

_Static_assert((int)GEMMD_ACT_RELU == (int)GEMM_ACT_RELU &&
                   (int)GEMMD_ACT_GELU == (int)GEMM_ACT_GELU &&
                   (int)GEMMD_ACT_GELU_TANH == (int)GEMM_ACT_GELU_TANH &&
                   (int)GEMMD_ACT_SILU == (int)GEMM_ACT_SILU,
               "activations are proto's");

/* A query under construction. */
struct query {
    char *text;
    size_t length, room;
    struct gemm_request *request;
    struct fault *fault; /* the first */
};

static void add(struct query *query, const char *name, const char *value)
{
    if (query->fault->code != GEMMD_OK ||
        gemm_request_set(query->request, name, value, query->fault) != GEMMD_OK)
        return;
    int written = snprintf(query->text + query->length, query->room - query->length, "%c%s=%s",
                           strchr(query->text, '?') == NULL ? '?' : '&', name, value);
    if (written < 0 || (size_t)written >= query->room - query->length)
        fault_set(query->fault, GEMMD_ERR_MALFORMED, name, "the parameters are too long");
    else
        query->length += (size_t)written;
}

static void add_u64(struct query *query, const char *name, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    add(query, name, text);
}

/* A number as every locale writes it here: with a point. */
static void add_f64(struct query *query, const char *name, double value)
{
    char text[40], plain[40];
    size_t length = 0;
    snprintf(text, sizeof text, "%.17g", value);
    for (const char *at = text; *at != '\0'; at++) {
        bool usual = strchr("0123456789+-einfa", *at) != NULL;
        if (usual || (length > 0 && plain[length - 1] != '.'))
            plain[length++] = usual ? *at : '.';
    }
    plain[length] = '\0';
    add(query, name, plain);
}

static void add_dtype(struct query *query, const char *name, int32_t dtype)
{
    add(query, name, gemmd_dtype_name((enum gemmd_dtype)dtype));
}

static const char *choice(int32_t value, const char *const *names, int32_t count)
{
    return value >= 0 && value < count ? names[value] : "?";
}

static void write_parameters(struct query *query, const struct gemmd_gemm *gemm)
{
    static const char *const precisions[] = {"full", "tf32"};
    static const char *const verifies[] = {"none", "freivalds"};
    bool is_act = (unsigned)gemm->act <= GEMMD_ACT_SILU;
    add_u64(query, "m", gemm->m);
    add_u64(query, "n", gemm->n);
    add_u64(query, "k", gemm->k);
    add_dtype(query, "dtype", (int32_t)gemm->dtype);
    if (gemm->out != GEMMD_OUT_DEFAULT)
        add_dtype(query, "out", gemm->out);
    if (gemm->precision != GEMMD_PRECISION_FULL)
        add(query, "precision", choice((int32_t)gemm->precision, precisions, 2));
    if (gemm->transa != 0)
        add_u64(query, "transa", (uint64_t)gemm->transa);
    if (gemm->transb != 0)
        add_u64(query, "transb", (uint64_t)gemm->transb);
    if (gemm->alpha != 1)
        add_f64(query, "alpha", gemm->alpha);
    if (gemm->beta != 0)
        add_f64(query, "beta", gemm->beta);
    if (gemm->batch != 1)
        add_u64(query, "batch", gemm->batch);
    if (gemm->bias != NULL)
        add_u64(query, "bias", 1);
    if (gemm->act != GEMMD_ACT_NONE)
        add(query, "act", is_act ? gemm_act_name((enum gemm_act)gemm->act) : "?");
    if (gemm->kernel != NULL)
        add(query, "kernel", gemm->kernel);
    if (gemm->verify != GEMMD_VERIFY_NONE)
        add(query, "verify", choice((int32_t)gemm->verify, verifies, 2));
    if (gemm->priority != 4)
        add_u64(query, "priority", gemm->priority);
    if (gemm->a_tensor != NULL)
        add(query, "a", gemm->a_tensor);
    if (gemm->b_tensor != NULL)
        add(query, "b", gemm->b_tensor);
    if (gemm->store != NULL)
        add(query, "store", gemm->store);
    /* Of all others the time that is left when they are sent. */
    if (gemm->job != 0 && gemm->timeout_ms != 0)
        add_u64(query, "timeout_ms", gemm->timeout_ms);
}

enum gemmd_error query_write(const struct gemmd_gemm *gemm, char *out, size_t room,
                             struct gemm_request *asked, struct fault *fault)
{
    struct query query = {.text = out, .room = room, .request = asked, .fault = fault};
    *fault = (struct fault){.code = GEMMD_OK};
    gemm_request_init(asked);
    query.length = (size_t)snprintf(out, room, "/gemm");
    write_parameters(&query, gemm);
    return fault->code == GEMMD_OK ? gemm_request_check(asked, FORMAT_RAW, fault) : fault->code;
}
