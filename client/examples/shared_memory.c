/*
 * shared_memory.c - a product whose operands and result are not copied.
 *
 * The operands and the result lie in memory from gemmd_memory_alloc(). The daemon maps this memory
 * and computes in it, and only the request's headers go through the socket. The daemon has to run
 * on the same host and listen on a Unix socket; its address is the environment's GEMMD_URL, for
 * example unix:/run/gemmd/gemmd.sock. With an address of another kind the program computes the
 * same, and the matrices go through the socket.
 *
 *     cc shared_memory.c $(pkg-config --cflags --libs gemmd) -o shared_memory
 *
 * Prints the corners of C = A * B, where A[i][j] = i + j and B[i][j] = i - j, and the way that the
 * bytes went:
 *
 *     5559680 -2763520
 *     13882880 -11086720
 *     through shared memory
 */
#include <gemmd/gemmd.h>
#include <stdio.h>

enum { SIDE = 256 };

static void fill(float *a, float *b)
{
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            a[i * SIDE + j] = (float)(i + j);
            b[i * SIDE + j] = (float)(i - j);
        }
}

static int compute(struct gemmd_client *client, const float *a, const float *b, float *c,
                   struct gemmd_error_info *error)
{
    const int last = SIDE - 1;
    struct gemmd_result result;
    struct gemmd_gemm gemm;

    gemmd_gemm_init(&gemm, sizeof gemm);
    gemm.m = gemm.n = gemm.k = SIDE;
    gemm.a = a;
    gemm.b = b;
    gemm.c = c;
    gemm.c_bytes = SIDE * SIDE * sizeof *c;
    gemmd_result_init(&result, sizeof result);
    if (gemmd_gemm(client, &gemm, &result, error) != GEMMD_OK)
        return 0;
    printf("%.0f %.0f\n", c[0], c[last]);
    printf("%.0f %.0f\n", c[last * SIDE], c[last * SIDE + last]);
    puts(result.shared ? "through shared memory" : "through the socket");
    return 1;
}

int main(void)
{
    const uint64_t matrix_bytes = SIDE * SIDE * sizeof(float);
    float *a = NULL, *b = NULL, *c = NULL;
    struct gemmd_options options;
    struct gemmd_error_info error;

    /* The library makes the shared memory once, so its size is set before the first allocation. */
    gemmd_options_init(&options, sizeof options);
    options.shared_bytes = 3 * matrix_bytes;

    struct gemmd_client *client = gemmd_client_new(&options, &error);
    int right = client != NULL && (a = gemmd_memory_alloc(client, matrix_bytes, &error)) != NULL &&
                (b = gemmd_memory_alloc(client, matrix_bytes, &error)) != NULL &&
                (c = gemmd_memory_alloc(client, matrix_bytes, &error)) != NULL;
    if (right) {
        fill(a, b);
        right = compute(client, a, b, c, &error);
    }
    if (!right)
        fprintf(stderr, "%s\n", error.message);
    if (client != NULL) {
        gemmd_memory_free(client, c);
        gemmd_memory_free(client, b);
        gemmd_memory_free(client, a);
    }
    gemmd_client_free(client);
    return right ? 0 : 1;
}
