#include "product_case.h"

#include <check.h>

const float case_a[CASE_M * CASE_K] = {1, 2, 3, 4, 5, 6, 7, 8};
const float case_b[CASE_K * CASE_N] = {1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1};
const float case_bias[CASE_N] = {10, 20, 30};
const float case_c0[CASE_M * CASE_N] = {100, 200, 300, 400, 500, 600};
const float case_product[CASE_M * CASE_N] = {0.5f, 1.5f, 2.5f, 3.5f, 4.5f, 5.5f};

struct gemmd_gemm case_gemm(void)
{
    struct gemmd_gemm gemm;
    gemmd_gemm_init(&gemm, sizeof gemm);
    gemm.m = CASE_M;
    gemm.n = CASE_N;
    gemm.k = CASE_K;
    gemm.a = case_a;
    gemm.b = case_b;
    return gemm;
}

struct fake_act case_act(char head[FAKE_HEAD_MAX])
{
    return (struct fake_act){
        .head = fake_gemm_head(head, CASE_M, CASE_N, "f32", CASE_C_BYTES),
        .payload = case_product,
        .payload_bytes = sizeof case_product,
        .take_bytes = FAKE_ALL,
    };
}

struct gemmd_client *case_client(const char *url, uint32_t retries)
{
    struct gemmd_options options;
    struct gemmd_error_info error;
    gemmd_options_init(&options, sizeof options);
    options.url = url;
    options.token = "secret";
    options.retries = retries;
    struct gemmd_client *client = gemmd_client_new(&options, &error);
    ck_assert_msg(client != NULL, "%s", error.message);
    return client;
}
