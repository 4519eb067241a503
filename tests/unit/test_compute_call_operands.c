/*
 * server/api/compute/compute_call.c: large bodies of every format, right and wrong ones, whose
 * operands go to the device while they arrive, on a simulated one. Each is received twice, once
 * where nothing goes early and once where it does, and has to come to the same: the same error with
 * the same sentence, or the same operands on the device.
 */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call_stage.h"
#include "proto/npy.h"
#include "server/api/compute/compute_call.h"
#include "server/api/v2/infer_call.h"
#include "server/device/device_copy.h"
#include "server/http/io_thread.h"

enum { MEMORY_BYTES = 48 << 20, ROOM = 8 << 20, ARRAYS_MAX = 5, HEADS_MAX = 8 };

static struct call_stage stage;

/* ---- bodies ---- */

/* What arrives, and where in it something other than operands stands. */
struct body {
    unsigned char *bytes;
    uint64_t length, json_bytes; /* of v2 */
    struct {
        uint64_t at, bytes;
    } heads[HEADS_MAX];
    uint32_t head_count;
};

struct array {
    const char *name;
    enum gemmd_dtype dtype;
    uint32_t rank;
    uint64_t dims[4];
};

/* A request: its parameters, and the arrays in the order of a raw body. */
static const struct spelled {
    const char *model; /* v2's, of the same */
    const struct call_operation *operation;
    const char *query, *v2_parameters;
    struct array arrays[ARRAYS_MAX];
} spelled[] = {
    {"gemm_fp32",
     &call_gemm,
     "m=600&n=700&k=1000&dtype=f32",
     "",
     {{"a", GEMMD_F32, 2, {600, 1000}}, {"b", GEMMD_F32, 2, {1000, 700}}}},
    {"gemm_fp32",
     &call_gemm,
     "m=600&n=700&k=1000&dtype=f32&bias=1&beta=2",
     ",\"beta\":2",
     {{"a", GEMMD_F32, 2, {600, 1000}},
      {"b", GEMMD_F32, 2, {1000, 700}},
      {"bias", GEMMD_F32, 1, {700}},
      {"c", GEMMD_F32, 2, {600, 700}}}},
    {"gemm_fp16",
     &call_gemm,
     "m=1100&n=1000&k=1200&dtype=f16&bias=1&transa=1",
     ",\"transa\":1",
     {{"a", GEMMD_F16, 2, {1200, 1100}},
      {"b", GEMMD_F16, 2, {1200, 1000}},
      {"bias", GEMMD_F16, 1, {1000}}}},
    {"gemm_fp32",
     &call_gemm,
     "m=600&n=700&k=1000&dtype=f32",
     "",
     {{"a", GEMMD_F32, 2, {600, 1000}}, {"b", GEMMD_F32, 2, {1000, 700}}}},
    {"attention_fp16",
     &call_attention,
     "batch=2&heads=8&sq=1000&d=64&dtype=f16",
     "",
     {{"q", GEMMD_F16, 4, {2, 8, 1000, 64}},
      {"k", GEMMD_F16, 4, {2, 8, 1000, 64}},
      {"v", GEMMD_F16, 4, {2, 8, 1000, 64}}}},
    {"attention_fp16",
     &call_attention,
     "batch=2&heads=8&sq=1000&d=64&dtype=f16&lens=1",
     "",
     {{"lens_q", GEMMD_I32, 1, {2}},
      {"lens_kv", GEMMD_I32, 1, {2}},
      {"q", GEMMD_F16, 4, {2, 8, 1000, 64}},
      {"k", GEMMD_F16, 4, {2, 8, 1000, 64}},
      {"v", GEMMD_F16, 4, {2, 8, 1000, 64}}}},
};
enum { SPELLED = sizeof spelled / sizeof *spelled };
enum { FORTRAN = 3 }; /* in .npy its arrays are in column-major order */

enum travel { RAW, NPY, SAFETENSORS, V2, TRAVELS };

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void append(struct body *body, const void *bytes, uint64_t count)
{
    ck_assert_uint_le(count, ROOM - body->length);
    memcpy(body->bytes + body->length, bytes, count);
    body->length += count;
}

static void append_head(struct body *body, const void *bytes, uint64_t count)
{
    body->heads[body->head_count].at = body->length;
    body->heads[body->head_count++].bytes = count;
    append(body, bytes, count);
}

static struct tensor tensor_of(const struct array *array)
{
    struct tensor tensor;
    ck_assert(tensor_init(&tensor, array->dtype, array->dims, array->rank, NULL));
    return tensor;
}

static void append_data(struct body *body, const struct array *array)
{
    const uint64_t bytes = tensor_of(array).bytes, from = body->length;
    static const int32_t lengths[] = {1000, 17};
    if (array->dtype == GEMMD_I32) {
        append_head(body, lengths, bytes);
        return;
    }
    ck_assert_uint_le(bytes, ROOM - from);
    for (uint64_t i = 0; i < bytes; i++)
        body->bytes[from + i] = (unsigned char)((from + i) * 13 + (from + i) / 4096);
    body->length += bytes;
}

static uint32_t count_of(const struct spelled *spelling)
{
    uint32_t count = 0;
    while (count < ARRAYS_MAX && spelling->arrays[count].name != NULL)
        count++;
    return count;
}

static void append_safetensors_head(struct body *body, const struct spelled *spelling)
{
    char header[SAFETENSORS_HEADER_MAX];
    struct safetensors_entry entries[ARRAYS_MAX] = {{.name = ""}};
    const uint32_t count = count_of(spelling);
    for (uint32_t i = 0; i < count; i++) {
        snprintf(entries[i].name, sizeof entries[i].name, "%s", spelling->arrays[i].name);
        entries[i].tensor = tensor_of(&spelling->arrays[i]);
    }
    append_head(body, header, safetensors_header(entries, count, header));
}

/* So many spaces behind it put the operands out of their alignment. */
static void append_json(struct body *body, const struct spelled *spelling, uint32_t spaces)
{
    static const char *const names[][2] = {
        {"a", "A"}, {"b", "B"}, {"bias", "BIAS"},     {"c", "C0"},           {"q", "Q"},
        {"k", "K"}, {"v", "V"}, {"lens_q", "LENS_Q"}, {"lens_kv", "LENS_KV"}};
    char json[2048];
    size_t at = (size_t)snprintf(json, sizeof json,
                                 "{\"parameters\":{\"binary_data_output\":true%s},\"inputs\":[",
                                 spelling->v2_parameters);
    for (uint32_t i = 0; i < count_of(spelling); i++) {
        const struct array *array = &spelling->arrays[i];
        uint32_t name = 0;
        while (strcmp(names[name][0], array->name) != 0)
            name++;
        at += (size_t)snprintf(json + at, sizeof json - at,
                               "%s{\"name\":\"%s\",\"datatype\":\"%s\",\"shape\":[",
                               i > 0 ? "," : "", names[name][1],
                               array->dtype == GEMMD_F32   ? "FP32"
                               : array->dtype == GEMMD_F16 ? "FP16"
                                                           : "INT32");
        for (uint32_t j = 0; j < array->rank; j++)
            at += (size_t)snprintf(json + at, sizeof json - at, "%s%" PRIu64, j > 0 ? "," : "",
                                   array->dims[j]);
        at += (size_t)snprintf(json + at, sizeof json - at,
                               "],\"parameters\":{\"binary_data_size\":%" PRIu64 "}}",
                               tensor_of(array).bytes);
    }
    at += (size_t)snprintf(json + at, sizeof json - at, "]}");
    for (size_t end = (at + 7) / 8 * 8 + spaces; at < end; at++)
        json[at] = ' ';
    append_head(body, json, at);
    body->json_bytes = at;
}

static void make(struct body *body, const struct spelled *spelling, enum travel travel,
                 uint32_t spaces)
{
    char header[NPY_HEADER_MAX];
    body->length = body->json_bytes = 0;
    body->head_count = 0;
    if (travel == SAFETENSORS)
        append_safetensors_head(body, spelling);
    if (travel == V2)
        append_json(body, spelling, spaces);
    for (uint32_t i = 0; i < count_of(spelling); i++) {
        struct tensor tensor = tensor_of(&spelling->arrays[i]);
        tensor.fortran = spelling == &spelled[FORTRAN];
        if (travel == NPY)
            append_head(body, header, npy_header(&tensor, header));
        append_data(body, &spelling->arrays[i]);
    }
}

/* Another digit, letter or bracket somewhere in a head. */
static void spoil_head(struct body *body, uint64_t *state)
{
    static const char others[] = "0123456789 {}[](),:'\"TFalsetrue<f248\x00\xff\x80";
    if (body->head_count == 0)
        return;
    const uint32_t head = (uint32_t)(next_random(state) % body->head_count);
    const uint64_t at = body->heads[head].at + next_random(state) % body->heads[head].bytes;
    body->bytes[at] = (unsigned char)others[next_random(state) % (sizeof others - 1)];
}

/* One byte of a head, the end, both, or nothing. */
static void spoil(struct body *body, uint64_t seed)
{
    uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    if (seed % 8 != 0 && seed % 8 != 7)
        spoil_head(body, &state);
    if (seed % 8 == 6)
        spoil_head(body, &state);
    if (seed % 16 == 7)
        body->length -= 1 + next_random(&state) % (body->length / 2);
    if (seed % 16 == 15)
        append(body, "surplus", 1 + next_random(&state) % 7);
}

/* ---- what becomes of one ---- */

struct outcome {
    enum gemmd_error code;
    struct fault fault;
    const char *kernel;
    uint64_t early_bytes, hash, result_bytes, queue_bytes;
};

static uint64_t hash_bytes(uint64_t hash, const unsigned char *bytes, uint64_t count)
{
    for (uint64_t at = 0; at < count; at += sizeof(uint64_t)) {
        uint64_t word = 0;
        memcpy(&word, bytes + at, count - at < sizeof word ? count - at : sizeof word);
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash;
}

/* Of all operands as the device gets them: from where they are, or as they have arrived. */
static uint64_t hash_operands(const struct work *work, bool arrived)
{
    struct copy_in all;
    uint64_t hash = 0;
    ck_assert(device_plan_copies(&stage.device->base, work, (struct device_span){NULL, 0}, &all));
    for (uint32_t i = 0; i < all.count; i++) {
        const struct copy_in_operand *o = &all.operands[i];
        const uint64_t row_bytes = o->row_bytes > 0 ? o->row_bytes : o->bytes;
        for (uint64_t at = 0; at < o->bytes; at += row_bytes)
            hash = hash_bytes(hash, arrived ? o->to + at / row_bytes * o->to_pitch : o->from + at,
                              row_bytes);
    }
    return hash;
}

static void run(struct work *work)
{
    early_copy_feed(stage.services.executors.list[0].early_copy);
    device_submit(stage.services.executors.list[0].device, work);
    ck_assert_ptr_eq(device_poll(stage.services.executors.list[0].device), work);
    ck_assert_int_eq(work->status, GEMMD_OK);
}

/* The call is bound, or was refused. */
static void conclude(struct compute_call *call, bool early, struct outcome *outcome)
{
    if (outcome->code != GEMMD_OK)
        return;
    outcome->kernel = work_kernel_name(&call->work);
    outcome->result_bytes = call->result_bytes;
    outcome->queue_bytes = call->queue_bytes;
    if (early)
        run(&call->work);
    outcome->hash = hash_operands(&call->work, early && call->work.copy_in != NULL);
}

/* Sends the body in steps of any length, and copies now and then. */
static void receive(const struct body *body, uint64_t seed,
                    bool (*take)(void *context, const void *bytes, uint64_t count), void *context)
{
    uint64_t state = seed + 12345, count;
    for (uint64_t at = 0; at < body->length; at += count) {
        const uint64_t longest = next_random(&state) % 3 == 0 ? 40 : 1 << 20;
        count = 1 + next_random(&state) % longest;
        if (count > body->length - at)
            count = body->length - at;
        if (!take(context, body->bytes + at, count))
            return;
        if (stage.services.executors.list[0].early_copy != NULL && next_random(&state) % 4 == 0)
            early_copy_feed(stage.services.executors.list[0].early_copy);
    }
}

struct receiver {
    struct compute_call call;
    struct outcome *outcome;
};

static bool take(void *context, const void *bytes, uint64_t count)
{
    struct receiver *receiver = context;
    struct outcome *outcome = receiver->outcome;
    outcome->code =
        compute_call_append(&receiver->call, &stage.services, bytes, count, &outcome->fault);
    return outcome->code == GEMMD_OK;
}

static enum gemmd_error open_call(struct compute_call *call, const struct spelled *spelling,
                                  enum travel travel, uint64_t length, struct fault *fault)
{
    char text[256], *rest = text;
    *call = (struct compute_call){.config = &stage.config, .memory = stage.memory};
    compute_call_begin(call, spelling->operation);
    call->body_format = travel == RAW   ? FORMAT_RAW
                        : travel == NPY ? FORMAT_NPY
                                        : FORMAT_SAFETENSORS;
    call->shapes_inside = travel != RAW;
    snprintf(text, sizeof text, "%s", spelling->query);
    for (char *pair = strsep(&rest, "&"); pair != NULL; pair = strsep(&rest, "&")) {
        const char *name = strsep(&pair, "=");
        ck_assert_int_eq(
            parameter_set(call->operation->parameters, &call->request, name, pair, fault),
            GEMMD_OK);
    }
    ck_assert_int_eq(compute_call_settle(call, &stage.services, "", fault), GEMMD_OK);
    if (!call->shapes_inside)
        ck_assert_int_eq(compute_call_layout(call, fault), GEMMD_OK);
    const enum gemmd_error code = compute_call_open(
        call, &stage.services, (struct body_length){.known = true, .bytes = length}, fault);
    return code == GEMMD_OK ? compute_call_look_ahead(call, &stage.services, fault) : code;
}

static struct outcome send_call(const struct spelled *spelling, enum travel travel,
                                const struct body *body, bool early, uint64_t seed)
{
    struct outcome outcome = {.code = GEMMD_OK};
    static struct receiver receiver;
    receiver.outcome = &outcome;
    outcome.code = open_call(&receiver.call, spelling, travel, body->length, &outcome.fault);
    if (outcome.code == GEMMD_OK)
        receive(body, seed, take, &receiver);
    if (outcome.code == GEMMD_OK)
        outcome.code = compute_call_bind(&receiver.call, &stage.services, &outcome.fault);
    conclude(&receiver.call, early, &outcome);
    compute_call_close(&receiver.call, &stage.services);
    return outcome;
}

static bool take_infer(void *context, const void *bytes, uint64_t count)
{
    return infer_chunk(context, bytes, count);
}

static struct outcome send_infer(const struct spelled *spelling, const struct body *body,
                                 bool early, uint64_t seed)
{
    struct outcome outcome = {.code = GEMMD_OK};
    struct http_server server = {.services = &stage.services};
    struct io_thread thread = {.server = &server, .services = stage.memory};
    struct request *request = calloc(1, sizeof *request);
    struct infer_call *infer = calloc(1, sizeof *infer);
    struct compute_call *call = &infer->compute;
    request->server = &server;
    request->config = &stage.config;
    request->thread = &thread;
    request->call = infer;
    infer->request = request;
    request->tenant = "";
    request->sized = true;
    request->body_bytes = body->length;
    infer->has_header = true;
    infer->json_bytes = body->json_bytes;
    call->config = &stage.config;
    call->memory = stage.memory;
    call->shapes_inside = call->sends_lse = true;
    ck_assert_int_eq(
        model_find(&stage.services, spelling->model, "", &infer->model, &outcome.fault), GEMMD_OK);
    compute_call_begin(call, infer->model.operation->operation);
    infer->model.operation->set_dtype(&call->request, infer->model.dtype);
    outcome.code = compute_call_open(call, &stage.services,
                                     (struct body_length){.known = true, .bytes = body->length},
                                     &request->fault);
    if (outcome.code == GEMMD_OK) {
        receive(body, seed, take_infer, request);
        ck_assert_int_eq(request->fault.code, GEMMD_OK); /* what is wrong is said at the end */
        outcome.code = infer_bind(request);
    }
    outcome.fault = request->fault;
    conclude(call, early, &outcome);
    infer_release(request);
    free(infer);
    free(request);
    return outcome;
}

static struct outcome send_once(const struct spelled *spelling, enum travel travel,
                                const struct body *body, bool early, uint64_t seed)
{
    struct early_copy *early_copy = stage.services.executors.list[0].early_copy;
    const uint64_t before = atomic_load(&stage.device->early_bytes);
    if (!early)
        stage.services.executors.list[0].early_copy = NULL;
    struct outcome outcome = travel == V2 ? send_infer(spelling, body, early, seed)
                                          : send_call(spelling, travel, body, early, seed);
    stage.services.executors.list[0].early_copy = early_copy;
    early_copy_feed(early_copy);
    outcome.early_bytes = atomic_load(&stage.device->early_bytes) - before;
    call_stage_assert_all_given_back(&stage);
    return outcome;
}

static void assert_same(const struct outcome *late, const struct outcome *early)
{
    ck_assert_msg(late->code == early->code, "late: %d %s\nearly: %d %s", (int)late->code,
                  late->fault.detail, (int)early->code, early->fault.detail);
    if (late->code != GEMMD_OK) {
        ck_assert_str_eq(late->fault.detail, early->fault.detail);
        ck_assert_str_eq(late->fault.field, early->fault.field);
        return;
    }
    ck_assert_str_eq(late->kernel, early->kernel);
    ck_assert_uint_eq(late->result_bytes, early->result_bytes);
    ck_assert_uint_eq(late->queue_bytes, early->queue_bytes);
    ck_assert_msg(late->hash == early->hash, "the operands on the device are not those sent");
}

static void start(struct body *body)
{
    call_stage_start(&stage, MEMORY_BYTES);
    stage.config.max_json_bytes = 1 << 20;
    body->bytes = malloc(ROOM);
    ck_assert_ptr_nonnull(body->bytes);
}

static void stop(struct body *body)
{
    call_stage_stop(&stage);
    free(body->bytes);
}

/* All but the last step goes before the body is complete. */
START_TEST(operands_go_as_they_land)
{
    const struct spelled *spelling = &spelled[_i / TRAVELS];
    const enum travel travel = (enum travel)(_i % TRAVELS);
    struct body body;
    start(&body);
    make(&body, spelling, travel, 0);
    ck_assert_uint_gt(body.length, EARLY_COPY_BODY_BYTES);
    const struct outcome late = send_once(spelling, travel, &body, false, 1);
    const struct outcome early = send_once(spelling, travel, &body, true, 1);
    ck_assert_msg(late.code == GEMMD_OK, "%s", late.fault.detail);
    assert_same(&late, &early);
    ck_assert_uint_eq(late.early_bytes, 0);
    ck_assert_uint_ge(early.early_bytes, body.length - EARLY_COPY_STEP_BYTES - 16384);
    stop(&body);
}
END_TEST

/* Of each request in each format. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { ROUNDS = 6 };
#else
enum { ROUNDS = 16 };
#endif

START_TEST(looking_ahead_changes_no_outcome)
{
    const struct spelled *spelling = &spelled[_i / TRAVELS];
    const enum travel travel = (enum travel)(_i % TRAVELS);
    struct body body;
    start(&body);
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        make(&body, spelling, travel, seed % 3 == 0);
        spoil(&body, seed + (uint64_t)_i * ROUNDS);
        const struct outcome late = send_once(spelling, travel, &body, false, seed);
        const struct outcome early = send_once(spelling, travel, &body, true, seed);
        assert_same(&late, &early);
    }
    stop(&body);
}
END_TEST

/* While the copies of a body that is refused are under way its memory is not anybody else's. */
START_TEST(the_memory_of_a_bad_body_waits_for_its_copies)
{
    static struct receiver receiver;
    const enum travel travel = (enum travel)(RAW + _i);
    const struct spelled *spelling = &spelled[SPELLED - 1];
    struct outcome outcome = {.code = GEMMD_OK};
    struct body body;
    start(&body);
    make(&body, spelling, travel, 0);
    for (uint32_t i = 0; i < body.head_count; i++)
        if (body.heads[i].bytes == 8) /* a length */
            body.bytes[body.heads[i].at + 3] = 0x7f;
    atomic_store(&stage.device->copies, SIMULATED_RUNNING);
    receiver.outcome = &outcome;
    ck_assert_int_eq(open_call(&receiver.call, spelling, travel, body.length, &outcome.fault),
                     GEMMD_OK);
    receive(&body, 3, take, &receiver);
    early_copy_feed(stage.services.executors.list[0].early_copy);
    ck_assert_uint_gt(stage.device->under_way_count, 0);
    ck_assert_int_eq(compute_call_bind(&receiver.call, &stage.services, &outcome.fault),
                     GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(outcome.fault.field, "lens");
    compute_call_close(&receiver.call, &stage.services);
    early_copy_feed(stage.services.executors.list[0].early_copy);
    ck_assert_uint_ge(pool_used_bytes(stage.services.pool), body.length);
    ck_assert_uint_ge(arena_used_bytes(device_arena(stage.services.executors.list[0].device)),
                      body.length);
    atomic_store(&stage.device->copies, SIMULATED_DONE);
    early_copy_feed(stage.services.executors.list[0].early_copy);
    stop(&body);
}
END_TEST

/* Adds an executor whose device is lost, so that executors are charged, and the first one computes
 * every call. */
static void add_lost_executor(void)
{
    struct executors *executors = &stage.services.executors;
    struct simulated_device *lost = simulated_device_open_copying(1, MEMORY_BYTES, NULL);
    device_set_lost(&lost->base, "for a test");
    executors->list[executors->count++].device = &lost->base;
}

static uint64_t charged_ns(void)
{
    return atomic_load(&stage.services.executors.list[0].charged_ns);
}

/* Memory that is short when the shapes arrive. The call is not prepared again when memory is free,
 * and the device is not charged any more. */
START_TEST(memory_that_is_short_refuses_the_call_at_its_shapes)
{
    static struct receiver receiver;
    const struct spelled *spelling = &spelled[1];
    struct outcome outcome = {.code = GEMMD_OK};
    struct arena *arena;
    struct body body;
    uint64_t held;
    start(&body);
    add_lost_executor();
    arena = device_arena(stage.services.executors.list[0].device);
    make(&body, spelling, SAFETENSORS, 0);
    ck_assert(arena_alloc(arena, MEMORY_BYTES - 4096, &held));
    receiver.outcome = &outcome;
    ck_assert_int_eq(open_call(&receiver.call, spelling, SAFETENSORS, body.length, &outcome.fault),
                     GEMMD_OK);
    ck_assert_uint_gt(charged_ns(), 0);
    receive(&body, 5, take, &receiver);
    ck_assert_int_eq(outcome.code, GEMMD_ERR_OUT_OF_MEMORY);
    ck_assert_ptr_nonnull(strstr(outcome.fault.detail, "out of device memory"));
    ck_assert_uint_lt(receiver.call.body_bytes, body.length);
    ck_assert_ptr_null(receiver.call.early_copy);
    ck_assert_ptr_null(receiver.call.result);
    arena_free(arena, held);
    compute_call_close(&receiver.call, &stage.services);
    ck_assert_uint_eq(charged_ns(), 0);
    device_close(stage.services.executors.list[1].device);
    stop(&body);
}
END_TEST

/* Nobody knows where the body will end, nor whether its memory stays where it is. */
START_TEST(a_body_of_unknown_length_goes_late)
{
    static struct receiver receiver;
    struct outcome outcome = {.code = GEMMD_OK};
    struct body body;
    start(&body);
    make(&body, &spelled[0], NPY, 0);
    receiver.outcome = &outcome;
    ck_assert_int_eq(open_call(&receiver.call, &spelled[0], NPY, body.length, &outcome.fault),
                     GEMMD_OK);
    ck_assert_uint_lt(receiver.call.look_at_bytes, UINT64_MAX);
    compute_call_close(&receiver.call, &stage.services);
    receiver.call.shapes_inside = true;
    receiver.call.is_finished = false;
    ck_assert_int_eq(compute_call_open(&receiver.call, &stage.services,
                                       (struct body_length){.known = false}, &outcome.fault),
                     GEMMD_OK);
    ck_assert_int_eq(compute_call_look_ahead(&receiver.call, &stage.services, &outcome.fault),
                     GEMMD_OK);
    receive(&body, 7, take, &receiver);
    ck_assert_ptr_null(receiver.call.early_copy);
    ck_assert_int_eq(compute_call_bind(&receiver.call, &stage.services, &outcome.fault), GEMMD_OK);
    compute_call_close(&receiver.call, &stage.services);
    stop(&body);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("compute_call_operands");
    TCase *tcase = tcase_create("operands");
    tcase_add_loop_test(tcase, operands_go_as_they_land, 0, SPELLED * TRAVELS);
    tcase_add_loop_test(tcase, looking_ahead_changes_no_outcome, 0, SPELLED * TRAVELS);
    tcase_add_loop_test(tcase, the_memory_of_a_bad_body_waits_for_its_copies, 0, 3);
    tcase_add_test(tcase, memory_that_is_short_refuses_the_call_at_its_shapes);
    tcase_add_test(tcase, a_body_of_unknown_length_goes_late);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
