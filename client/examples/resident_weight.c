/*
 * resident_weight.c - many products with one matrix, which is uploaded once.
 *
 * Puts a weight on the daemon under a name, multiplies rows with the weight, and removes the
 * weight. A second put of the same bytes uploads nothing, since the library first asks the daemon
 * whether the tensor has that content. The daemon's address is the environment's GEMMD_URL, or
 * http://127.0.0.1:8080.
 *
 *     cc resident_weight.c $(pkg-config --cflags --libs gemmd) -o resident_weight
 *
 * Prints what became of each put, then one row of results for each of three products:
 *
 *     created
 *     unchanged
 *     0 1 2 3
 *     4 6 8 10
 *     8 11 14 17
 */
#include <gemmd/gemmd.h>
#include <stdio.h>

enum { K = 2, N = 4, ROWS = 3 };

static const char NAME[] = "example-weight";

static const char *put_name(enum gemmd_put put)
{
    switch (put) {
    case GEMMD_PUT_CREATED:
        return "created";
    case GEMMD_PUT_REPLACED:
        return "replaced";
    case GEMMD_PUT_UNCHANGED:
        return "unchanged";
    case GEMMD_PUT_NONE:
        break;
    }
    return "none";
}

static int put_weight(struct gemmd_client *client, const float *weight,
                      struct gemmd_error_info *error)
{
    struct gemmd_tensor_put put;
    struct gemmd_result result;

    gemmd_tensor_put_init(&put, sizeof put);
    put.name = NAME;
    put.rank = 2;
    put.dims[0] = K;
    put.dims[1] = N;
    put.data = weight;
    gemmd_result_init(&result, sizeof result);
    if (gemmd_tensor_put(client, &put, &result, error) != GEMMD_OK)
        return 0;
    puts(put_name(result.put));
    return 1;
}

/* One row times the weight, which the request names instead of sending it. */
static int multiply(struct gemmd_client *client, const float *row, struct gemmd_error_info *error)
{
    struct gemmd_gemm gemm;
    float y[N];

    gemmd_gemm_init(&gemm, sizeof gemm);
    gemm.m = 1;
    gemm.n = N;
    gemm.k = K;
    gemm.a = row;
    gemm.b_tensor = NAME;
    gemm.c = y;
    gemm.c_bytes = sizeof y;
    if (gemmd_gemm(client, &gemm, NULL, error) != GEMMD_OK)
        return 0;
    printf("%g %g %g %g\n", y[0], y[1], y[2], y[3]);
    return 1;
}

int main(void)
{
    const float weight[K * N] = {0, 1, 2, 3, 4, 5, 6, 7};
    const float rows[ROWS][K] = {{1, 0}, {1, 1}, {1, 2}};
    struct gemmd_error_info error;
    struct gemmd_client *client = gemmd_client_new(NULL, &error);

    int right =
        client != NULL && put_weight(client, weight, &error) && put_weight(client, weight, &error);
    for (int i = 0; right && i < ROWS; i++)
        right = multiply(client, rows[i], &error);
    if (right)
        right = gemmd_tensor_delete(client, NAME, NULL, &error) == GEMMD_OK;
    if (!right)
        fprintf(stderr, "%s\n", error.message);
    gemmd_client_free(client);
    return right ? 0 : 1;
}
