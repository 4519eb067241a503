/*
 * product.c - one product: C = relu(2 * A * B + bias).
 *
 * Shows a client, a request with its parameters, and what an error tells. The daemon's address is
 * the environment's GEMMD_URL, or http://127.0.0.1:8080.
 *
 *     cc product.c $(pkg-config --cflags --libs gemmd) -o product
 *
 * Prints the 2 x 4 result, a row a line, and the kernel that computed it:
 *
 *     0 0 4 12
 *     10 19 32 42
 *     computed by openblas
 */
#include <gemmd/gemmd.h>
#include <stdio.h>

enum { M = 2, N = 4, K = 3 };

static void report(const struct gemmd_error_info *error)
{
    fprintf(stderr, "%s: %s\n", gemmd_error_name(error->code), error->message);
    if (error->field[0] != '\0')
        fprintf(stderr, "parameter: %s\n", error->field);
    if (error->request_id[0] != '\0')
        fprintf(stderr, "in the daemon's log: request %s\n", error->request_id);
}

int main(void)
{
    const float a[M * K] = {1, 0, -1, 2, 1, 0};
    const float b[K * N] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 7, 6, 5};
    const float bias[N] = {2, 5, 12, 16};
    float c[M * N];
    struct gemmd_error_info error;
    struct gemmd_result result;
    struct gemmd_gemm gemm;
    int status = 1;

    struct gemmd_client *client = gemmd_client_new(NULL, &error);
    if (client == NULL) {
        report(&error);
        return 1;
    }

    gemmd_gemm_init(&gemm, sizeof gemm);
    gemm.m = M;
    gemm.n = N;
    gemm.k = K;
    gemm.a = a;
    gemm.b = b;
    gemm.bias = bias;
    gemm.alpha = 2;
    gemm.act = GEMMD_ACT_RELU;
    gemm.c = c;
    gemm.c_bytes = sizeof c;

    gemmd_result_init(&result, sizeof result);
    if (gemmd_gemm(client, &gemm, &result, &error) != GEMMD_OK) {
        report(&error);
        goto done;
    }
    for (int i = 0; i < M; i++)
        printf("%g %g %g %g\n", c[i * N], c[i * N + 1], c[i * N + 2], c[i * N + 3]);
    printf("computed by %s\n", result.kernel);
    status = 0;

done:
    gemmd_client_free(client);
    return status;
}
