/*
 * asynchronous.c - several products in flight from one thread, without an event loop.
 *
 * Starts all products, then takes each result as soon as the daemon has answered. For a program
 * that has a libuv loop, see uv.c. The daemon's address is the environment's GEMMD_URL, or
 * http://127.0.0.1:8080.
 *
 *     cc asynchronous.c $(pkg-config --cflags --libs gemmd) -o asynchronous
 *
 * Prints a line for each of the eight products, in the order in which they are done: the product's
 * number i, and the 2 x 2 matrix i * A * B:
 *
 *     1: 19 22 43 50
 *     0: 0 0 0 0
 *     2: 38 44 86 100
 */
#include <gemmd/gemmd.h>
#include <stdio.h>

enum { PRODUCTS = 8 };

struct product {
    int number;
    float c[4]; /* the daemon's answer is written here while the request is in flight */
};

static int submit(struct gemmd_client *client, const float *a, const float *b,
                  struct product *product, struct gemmd_error_info *error)
{
    struct gemmd_gemm gemm;

    gemmd_gemm_init(&gemm, sizeof gemm);
    gemm.m = gemm.n = gemm.k = 2;
    gemm.a = a;
    gemm.b = b;
    gemm.alpha = product->number;
    gemm.c = product->c;
    gemm.c_bytes = sizeof product->c;
    gemm.user = product;
    return gemmd_gemm_submit(client, &gemm, error) != NULL; /* gemmd_wait_any() returns it */
}

/* Prints the result of a request that is done, and releases the request. */
static int take(struct gemmd_request *request, struct gemmd_error_info *error)
{
    const struct product *product = gemmd_request_user(request);
    const float *c = product->c;
    const int right = gemmd_request_result(request, NULL, error) == GEMMD_OK;
    if (right)
        printf("%d: %g %g %g %g\n", product->number, c[0], c[1], c[2], c[3]);
    gemmd_request_free(request);
    return right;
}

int main(void)
{
    const float a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8};
    struct product products[PRODUCTS];
    struct gemmd_error_info error;
    struct gemmd_request *request;
    struct gemmd_client *client = gemmd_client_new(NULL, &error);

    int right = client != NULL;
    for (int i = 0; right && i < PRODUCTS; i++) {
        products[i].number = i;
        right = submit(client, a, b, &products[i], &error);
    }
    /* A negative time waits until a request is done. NULL: none is in flight any more. */
    while (right && (request = gemmd_wait_any(client, -1)) != NULL)
        right = take(request, &error);
    if (!right)
        fprintf(stderr, "%s\n", error.message);
    gemmd_client_free(client); /* cancels and releases what is still in flight */
    return right ? 0 : 1;
}
