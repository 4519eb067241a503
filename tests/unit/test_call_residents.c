/* server/api/compute/call_residents.c and gemm_request_settle_residents: what a product's resident
 * operands say of it, and where they are. */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/dtype.h"
#include "proto/gemm_request.h"
#include "server/api/compute/call_residents.h"
#include "server/api/compute/compute_call.h"
#include "server/api/services.h"
#include "server/device/device.h"
#include "server/device/memory/arena.h"
#include "server/device/memory/pinned_pool.h"
#include "server/tensors/tensor_store_parts.h"

enum { UNIT = ARENA_ALIGNMENT, UNITS = 32 };

static unsigned char *memory;
static struct tensor_store *store;
static struct fault fault;

static void put(const char *name, const char *tenant, enum gemmd_dtype dtype, uint32_t rank,
                uint64_t first, uint64_t second, uint64_t third)
{
    static const struct tensor_condition always;
    const uint64_t dims[] = {first, second, third};
    struct tensor tensor;
    struct resident *resident;
    bool replaced;
    ck_assert(tensor_init(&tensor, dtype, dims, rank, NULL));
    const struct tensor_offer offer = {
        .name = name, .tenant = tenant, .tensor = &tensor, .device = TENSOR_ANY_DEVICE};
    ck_assert_int_eq(tensor_store_reserve(store, &offer, &resident, &fault), GEMMD_OK);
    ck_assert_int_eq(tensor_store_publish(store, resident, &always, &replaced, &fault), GEMMD_OK);
    tensor_store_release(store, resident);
}

static void set_up(void)
{
    const struct gemm_device cpu = {.backend = GEMM_BACKEND_CPU};
    memory = aligned_alloc(UNIT, UNITS * UNIT);
    store = tensor_store_create(&(struct device_span){memory, UNITS * UNIT}, 1, &cpu, 0);
    ck_assert_ptr_nonnull(store);
    memset(&fault, 0, sizeof fault);
    put("a23", "t", GEMMD_F16, 2, 2, 3, 0);
    put("b34", "t", GEMMD_F16, 2, 3, 4, 0);
    put("w34", "t", GEMMD_F32, 2, 3, 4, 0);
    put("batch5", "t", GEMMD_F16, 3, 5, 3, 4);
    put("batch1", "t", GEMMD_F16, 3, 1, 3, 4);
    put("vector", "t", GEMMD_F16, 1, 3, 0, 0);
    put("sums", "t", GEMMD_I32, 2, 3, 4, 0);
    put("theirs", "u", GEMMD_F16, 2, 3, 4, 0);
}

static void tear_down(void)
{
    tensor_store_destroy(store);
    free(memory);
}

/* Sets the parameters, then does what the endpoint does. */
static enum gemmd_error open_request(const char *query, enum format format,
                                     struct gemm_request *request, struct call_residents *residents)
{
    char text[256], *rest = text;
    gemm_request_init(request);
    *residents = (struct call_residents){.tenant = "t"};
    snprintf(text, sizeof text, "%s", query);
    for (char *pair = strsep(&rest, "&"); pair != NULL; pair = strsep(&rest, "&")) {
        char *name = strsep(&pair, "=");
        ck_assert_msg(gemm_request_set(request, name, pair, &fault) == GEMMD_OK, "%s",
                      fault.detail);
    }
    enum gemmd_error code = GEMMD_OK;
    if (request->a[0] != '\0')
        code = call_residents_acquire(store, "a", request->a, "t", &residents->a, &fault);
    if (code == GEMMD_OK && request->b[0] != '\0')
        code = call_residents_acquire(store, "b", request->b, "t", &residents->b, &fault);
    if (code == GEMMD_OK)
        code = gemm_request_settle_residents(request, call_residents_tensor(residents->a),
                                             call_residents_tensor(residents->b), &fault);
    return code == GEMMD_OK ? gemm_request_check(request, format, &fault) : code;
}

static void close_request(struct call_residents *residents)
{
    call_residents_finish(residents, store, false);
    call_residents_close(residents, store);
}

static const struct {
    const char *query;
    enum gemmd_error code;
    const char *expected; /* "m n k batch dtype out", or the field at fault */
} cases[] = {
    {"b=b34&m=7", GEMMD_OK, "7 4 3 1 f16 f16"},
    {"a=a23&n=7", GEMMD_OK, "2 7 3 1 f16 f16"},
    {"a=a23&b=b34", GEMMD_OK, "2 4 3 1 f16 f16"},
    {"a=a23&b=b34&m=2&n=4&k=3&batch=1&dtype=f16&out=f32", GEMMD_OK, "2 4 3 1 f16 f32"},
    {"b=b34&transb=1&m=7", GEMMD_OK, "7 3 4 1 f16 f16"},
    {"a=a23&transa=1&n=7", GEMMD_OK, "3 7 2 1 f16 f16"},
    {"b=batch5&m=7", GEMMD_OK, "7 4 3 5 f16 f16"},
    {"b=batch5&m=7&batch=5", GEMMD_OK, "7 4 3 5 f16 f16"},
    {"b=batch1&m=7", GEMMD_OK, "7 4 3 1 f16 f16"},
    {"a=a23&b=batch1", GEMMD_OK, "2 4 3 1 f16 f16"},
    {"a=w34&b=w34&transb=1", GEMMD_OK, "3 3 4 1 f32 f32"},
    {"b=b34&m=7&batch=2", GEMMD_OK, "7 4 3 2 f16 f16"},
    {"a=batch5&b=b34&transb=1", GEMMD_OK, "3 3 4 5 f16 f16"},

    {"b=b34", GEMMD_ERR_MALFORMED, "m"},
    {"b=b34&m=7&k=4", GEMMD_ERR_MALFORMED, "k"},
    {"b=b34&m=7&n=3", GEMMD_ERR_MALFORMED, "n"},
    {"a=a23&n=7&batch=2", GEMMD_ERR_MALFORMED, "batch"},
    {"b=batch5&m=7&batch=1", GEMMD_ERR_MALFORMED, "batch"},
    {"b=b34&m=7&dtype=f32", GEMMD_ERR_MALFORMED, "dtype"},
    {"a=b34&b=b34", GEMMD_ERR_MALFORMED, "k"},
    {"a=a23&b=w34", GEMMD_ERR_MALFORMED, "dtype"},
    {"a=a23&b=batch5", GEMMD_ERR_MALFORMED, "batch"},
    {"b=vector&m=7", GEMMD_ERR_MALFORMED, ""},
    {"b=sums&m=7", GEMMD_ERR_UNSUPPORTED, "dtype"},
    {"b=b34&m=7&out=f64", GEMMD_ERR_UNSUPPORTED, "out"},
    {"b=none&m=7", GEMMD_ERR_NOT_FOUND, "b"},
    {"a=none&b=b34", GEMMD_ERR_NOT_FOUND, "a"},
    {"a=a23&b=theirs", GEMMD_ERR_FORBIDDEN, "b"},
};

START_TEST(shapes_settle_the_request)
{
    struct gemm_request r;
    struct call_residents residents;
    char got[64];
    enum gemmd_error code = open_request(cases[_i].query, FORMAT_RAW, &r, &residents);
    ck_assert_msg(code == cases[_i].code, "%s: %d, %s", cases[_i].query, (int)code, fault.detail);
    snprintf(got, sizeof got, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %s %s", r.m, r.n,
             r.k, r.batch, dtype_name(r.dtype), dtype_name(r.out));
    ck_assert_msg(strcmp(code == GEMMD_OK ? got : fault.field, cases[_i].expected) == 0,
                  "%s: %s %s", cases[_i].query, got, fault.detail);
    close_request(&residents);
}
END_TEST

START_TEST(arrays_must_agree_with_what_is_resident)
{
    static const struct {
        uint64_t dims[2];
        enum gemmd_dtype dtype;
        enum gemmd_error code;
    } bodies[] = {
        {{7, 3}, GEMMD_F16, GEMMD_OK},
        {{7, 4}, GEMMD_F16, GEMMD_ERR_MALFORMED},
        {{7, 3}, GEMMD_F32, GEMMD_ERR_MALFORMED},
    };
    static char body[4096];
    struct gemm_request request;
    struct call_residents residents;
    struct gemm_operands operands;
    struct safetensors_entry entry = {.name = "a"};
    ck_assert_int_eq(open_request("b=b34", FORMAT_SAFETENSORS, &request, &residents), GEMMD_OK);
    ck_assert(tensor_init(&entry.tensor, bodies[_i].dtype, bodies[_i].dims, 2, NULL));
    const uint64_t length = safetensors_header(&entry, 1, body) + entry.tensor.bytes;
    ck_assert_int_eq(
        gemm_request_bind(&request, FORMAT_SAFETENSORS, body, length, &operands, &fault),
        bodies[_i].code);
    if (bodies[_i].code == GEMMD_OK) {
        ck_assert_uint_eq(request.m, 7);
        ck_assert_uint_eq(request.n, 4);
        ck_assert_uint_eq(request.k, 3);
        ck_assert_uint_eq(operands.b.rank, 0);
    }
    close_request(&residents);
}
END_TEST

/* Takes memory for the result that the request stores. */
static enum gemmd_error reserve_result(struct call_residents *residents,
                                       const struct gemm_request *request)
{
    struct tensor c;
    ck_assert(gemm_request_result(request, NULL, &c));
    const struct stored_result result = {.name = request->store, .tensor = &c};
    return call_residents_reserve(residents, &result, store, 0, &fault);
}

START_TEST(the_problem_points_at_what_is_there)
{
    struct gemm_request request;
    struct call_residents residents;
    union operation_problem of = {.gemm = {.lda = 99, .ldb = 99, .ldc = 99}};
    const struct gemm_problem *problem = &of.gemm;
    ck_assert_int_eq(open_request("b=batch5&m=7&store=c", FORMAT_RAW, &request, &residents),
                     GEMMD_OK);
    ck_assert_int_eq(reserve_result(&residents, &request), GEMMD_OK);
    call_gemm.point_residents(&residents, &of);
    ck_assert_ptr_null(problem->a);
    ck_assert_uint_eq(problem->lda, 99);
    ck_assert_ptr_eq(problem->b, resident_memory(residents.b));
    ck_assert_uint_eq(problem->ldb, 4);
    ck_assert_uint_eq(problem->stride_b, 12);
    ck_assert_ptr_eq(problem->c, resident_memory(residents.stored));
    ck_assert_uint_eq(problem->ldc, 4);
    ck_assert_uint_eq(problem->stride_c, 28);
    close_request(&residents);
}
END_TEST

/* The problem of a call that several devices compute is pointed again for each of them. */
START_TEST(rows_of_k_and_v_are_apart_however_often_they_are_pointed)
{
    enum { HEADS = 3, LENGTH = 5, D = 72, LEADING = 80 };
    const enum attention_layout layout = _i == 0 ? ATTENTION_BHSD : ATTENTION_BSHD;
    const struct attention_strides apart = attention_strides(layout, HEADS, LENGTH, LEADING);
    struct resident k = {.leading = LEADING};
    const struct call_residents residents = {.a = &k, .b = &k};
    union operation_problem of = {
        .attention = {.d = D,
                      .dv = D,
                      .k_strides = attention_strides(layout, HEADS, LENGTH, D),
                      .v_strides = attention_strides(layout, HEADS, LENGTH, D)}};
    for (int i = 0; i < 2; i++) {
        call_attention.point_residents(&residents, &of);
        ck_assert_mem_eq(&of.attention.k_strides, &apart, sizeof apart);
        ck_assert_mem_eq(&of.attention.v_strides, &apart, sizeof apart);
    }
}
END_TEST

START_TEST(few_rows_count_a_part_of_what_they_meet)
{
    struct gemm_request request;
    struct call_residents residents;
    put("wide", "t", GEMMD_F32, 2, 4, 64, 0); /* 1024 bytes */
    ck_assert_int_eq(
        open_request("a=wide&b=wide&transb=1&store=c", FORMAT_RAW, &request, &residents), GEMMD_OK);
    ck_assert_uint_eq(call_residents_work_bytes(&residents, 128, 128), 2048);
    ck_assert_int_eq(reserve_result(&residents, &request), GEMMD_OK);
    ck_assert_uint_eq(call_residents_work_bytes(&residents, 128, 1000), 2048 + 64); /* C: 64 */
    ck_assert_uint_eq(call_residents_work_bytes(&residents, 1, 127), 8 + 127 * 8 + 64);
    close_request(&residents);
}
END_TEST

/* Each head of K and V is met by the queries of four heads. */
START_TEST(queries_of_all_heads_that_share_a_head_of_k_count)
{
    union call_request of;
    struct call_residents residents = {.tenant = NULL};
    struct attention_request *request = &of.attention;
    union operation_problem problem;
    uint64_t rows[2];
    put("k", "t", GEMMD_F32, 3, 2, 4, 64); /* 2048 bytes */
    call_attention.init(&of);
    ck_assert_int_eq(call_residents_acquire(store, "k", "k", "t", &residents.a, &fault), GEMMD_OK);
    ck_assert_int_eq(call_residents_acquire(store, "v", "k", "t", &residents.b, &fault), GEMMD_OK);
    request->dtype = GEMMD_F32;
    request->batch = 1;
    request->heads = 8;
    request->kv_heads = 2;
    request->sq = 3;
    request->skv = 4;
    request->d = request->dv = 64;
    ck_assert_int_eq(call_attention.problem(&of, &residents, false, &problem, &fault), GEMMD_OK);
    call_attention.resident_rows(&problem, rows);
    ck_assert_uint_eq(call_residents_work_bytes(&residents, rows[0], rows[1]), 2 * 12 * 2048 / 128);
    close_request(&residents);
}
END_TEST

START_TEST(a_result_has_its_name_once_it_is_published)
{
    struct gemm_request request;
    struct call_residents residents;
    struct resident *found;
    const uint64_t before = tensor_store_state(store).used_bytes;
    ck_assert_int_eq(open_request("a=a23&b=b34&store=c", FORMAT_RAW, &request, &residents),
                     GEMMD_OK);
    ck_assert_int_eq(reserve_result(&residents, &request), GEMMD_OK);
    ck_assert_int_eq(tensor_store_acquire(store, "c", "t", &found, &fault), GEMMD_ERR_NOT_FOUND);
    char *description;
    ck_assert_int_eq(call_residents_publish(&residents, store, &description, &fault), GEMMD_OK);
    ck_assert_ptr_nonnull(strstr(description, "\"name\": \"c\""));
    free(description);
    close_request(&residents);
    ck_assert_int_eq(tensor_store_acquire(store, "c", "t", &found, &fault), GEMMD_OK);
    ck_assert_uint_eq(resident_tensor(found)->bytes, 2 * 4 * 2);
    tensor_store_release(store, found);
    ck_assert_uint_eq(tensor_store_state(store).used_bytes, before + UNIT);

    /* Another's name cannot be taken. */
    ck_assert_int_eq(open_request("a=a23&b=b34&store=theirs", FORMAT_RAW, &request, &residents),
                     GEMMD_OK);
    ck_assert_int_eq(reserve_result(&residents, &request), GEMMD_ERR_FORBIDDEN);
    ck_assert_str_eq(fault.field, "store");
    close_request(&residents);
}
END_TEST

START_TEST(hits_and_misses_are_counted)
{
    struct gemm_request request;
    struct call_residents residents;
    ck_assert_int_eq(open_request("a=a23&b=none", FORMAT_RAW, &request, &residents),
                     GEMMD_ERR_NOT_FOUND);
    close_request(&residents);
    ck_assert_uint_eq(tensor_store_state(store).hits, 1);
    ck_assert_uint_eq(tensor_store_state(store).misses, 1);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("call_residents");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, shapes_settle_the_request, 0, sizeof cases / sizeof cases[0]);
    tcase_add_loop_test(tests, arrays_must_agree_with_what_is_resident, 0, 3);
    tcase_add_test(tests, the_problem_points_at_what_is_there);
    tcase_add_loop_test(tests, rows_of_k_and_v_are_apart_however_often_they_are_pointed, 0, 2);
    tcase_add_test(tests, few_rows_count_a_part_of_what_they_meet);
    tcase_add_test(tests, queries_of_all_heads_that_share_a_head_of_k_count);
    tcase_add_test(tests, a_result_has_its_name_once_it_is_published);
    tcase_add_test(tests, hits_and_misses_are_counted);
    Suite *suite = suite_create("call_residents");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
