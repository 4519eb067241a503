/*
 * uv.c - many products in flight from one thread, in a libuv loop.
 *
 * Keeps 256 products of 64 x 64 x 64 in flight on 8 connections until 2,000 are answered, and
 * checks every result. The daemon's address is the environment's GEMMD_URL, or
 * http://127.0.0.1:8080.
 *
 *     cc uv.c $(pkg-config --cflags --libs gemmd libuv) -o uv
 *
 * Prints how many products were answered, how many of them failed, and the rate:
 *
 *     2000 products, 0 failed, 7982 a second
 */
#include <gemmd/adapters/uv.h>
#include <stdio.h>

enum { SIDE = 64, IN_FLIGHT = 256, PRODUCTS = 2000 };

struct run {
    struct gemmd_client *client;
    struct gemmd_uv adapter;
    struct gemmd_gemm gemm;
    float a[SIDE * SIDE], b[SIDE * SIDE];
    uint32_t submitted, answered, failed;
};

static void on_done(struct gemmd_request *request, void *user);

static int submit(struct run *run)
{
    struct gemmd_error_info error;
    struct gemmd_request *request = gemmd_gemm_submit(run->client, &run->gemm, &error);
    if (request == NULL) {
        fprintf(stderr, "%s\n", error.message);
        return 0;
    }
    gemmd_on_done(request, on_done);
    run->submitted++;
    return 1;
}

/* B is twice the identity, so C is twice A. */
static int is_right(const struct run *run, const float *c)
{
    for (int i = 0; i < SIDE * SIDE; i++)
        if (c[i] != 2 * run->a[i])
            return 0;
    return 1;
}

static void on_done(struct gemmd_request *request, void *user)
{
    struct run *run = user;
    struct gemmd_result result;
    struct gemmd_error_info error;
    gemmd_result_init(&result, sizeof result);
    if (gemmd_request_result(request, &result, &error) != GEMMD_OK) {
        fprintf(stderr, "%s\n", error.message);
        run->failed++;
    } else if (!is_right(run, result.data)) {
        fprintf(stderr, "a result is wrong\n");
        run->failed++;
    }
    gemmd_free(result.data);
    gemmd_request_free(request);
    run->answered++;
    if (run->submitted < PRODUCTS && run->failed == 0)
        submit(run);
    if (run->answered == run->submitted)
        gemmd_uv_detach(&run->adapter, NULL);
}

int main(void)
{
    static struct run run;
    struct gemmd_options options;
    struct gemmd_error_info error;
    uv_loop_t *loop = uv_default_loop();

    for (int i = 0; i < SIDE * SIDE; i++) {
        run.a[i] = (float)(i % 251);
        run.b[i] = i % (SIDE + 1) == 0 ? 2 : 0;
    }
    gemmd_gemm_init(&run.gemm, sizeof run.gemm);
    run.gemm.m = run.gemm.n = run.gemm.k = SIDE;
    run.gemm.a = run.a;
    run.gemm.b = run.b;
    run.gemm.user = &run;

    gemmd_options_init(&options, sizeof options);
    options.max_in_flight = 8;
    run.client = gemmd_client_new(&options, &error);
    if (run.client == NULL || gemmd_uv_attach(&run.adapter, run.client, loop) != 0) {
        fprintf(stderr, "%s\n", run.client == NULL ? error.message : "no place in the loop");
        gemmd_client_free(run.client);
        return 1;
    }
    uint64_t began = uv_hrtime();
    for (int i = 0; i < IN_FLIGHT; i++)
        if (!submit(&run))
            break;
    if (run.submitted == 0)
        gemmd_uv_detach(&run.adapter, NULL);
    uv_run(loop, UV_RUN_DEFAULT);
    double seconds = (double)(uv_hrtime() - began) / 1e9;
    printf("%u products, %u failed, %.0f a second\n", run.answered, run.failed,
           run.answered / seconds);
    gemmd_client_free(run.client);
    uv_loop_close(loop);
    return run.answered == PRODUCTS && run.failed == 0 ? 0 : 1;
}
