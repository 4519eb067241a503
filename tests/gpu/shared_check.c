/*
 * gemmd-gpu-shared-check URL - shared memory on a GPU, against a running daemon on a Unix socket
 * with --shm-cuda: products in memory that is sent along, copied there or made there, and in the
 * GPU's own, give the bytes that they give over the socket. Exit status 1 if a byte differs.
 */
#include <cuda_runtime_api.h>
#include <gemmd/gemmd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const char *url;
static int passes, failures;

static void expect(int right, const char *what, uint64_t side, const char *why)
{
    printf("%-4s %s, %llu^3%s%s\n", right ? "ok" : "BAD", what, (unsigned long long)side,
           right ? "" : ": ", right ? "" : why);
    passes += right;
    failures += !right;
}

static struct gemmd_client *client_of(enum gemmd_shared shared, uint64_t bytes)
{
    struct gemmd_options options;
    struct gemmd_error_info error;
    gemmd_options_init(&options, sizeof options);
    options.url = url;
    options.shared = shared;
    options.shared_bytes = bytes;
    struct gemmd_client *client = gemmd_client_new(&options, &error);
    if (client == NULL)
        printf("BAD  no client: %s\n", error.message);
    return client;
}

static struct gemmd_gemm product(uint64_t side, const void *a, const void *b, void *c)
{
    struct gemmd_gemm gemm;
    gemmd_gemm_init(&gemm, sizeof gemm);
    gemm.m = gemm.n = gemm.k = side;
    gemm.a = a;
    gemm.b = b;
    gemm.c = c;
    gemm.c_bytes = side * side * sizeof(float);
    return gemm;
}

static void fill(float *out, uint64_t count, uint32_t seed)
{
    for (uint64_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        out[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
    }
}

/* ---- the same bytes ---- */

static void check_client(const char *what, enum gemmd_shared shared, int made_there, uint64_t side,
                         const float *a, const float *b, const float *expected)
{
    const uint64_t bytes = side * side * sizeof(float);
    struct gemmd_error_info error = {.message = "other bytes"};
    struct gemmd_result result;
    struct gemmd_client *client = client_of(shared, 3 * bytes + 4096);
    if (client == NULL) {
        failures++;
        return;
    }
    float *own[3] = {NULL, NULL, NULL};
    for (int i = 0; made_there && i < 3; i++)
        own[i] = gemmd_memory_alloc(client, bytes, NULL);
    float *c = made_there ? own[2] : malloc(bytes);
    if (made_there) {
        memcpy(own[0], a, bytes);
        memcpy(own[1], b, bytes);
    }
    memset(c, 0x5a, bytes);
    const struct gemmd_gemm gemm =
        product(side, made_there ? own[0] : a, made_there ? own[1] : b, c);
    gemmd_result_init(&result, sizeof result);
    int right = gemmd_gemm(client, &gemm, &result, &error) == GEMMD_OK && result.shared == 1 &&
                memcmp(c, expected, bytes) == 0;
    expect(right, what, side, error.message);
    if (!made_there)
        free(c);
    for (int i = 0; i < 3; i++)
        gemmd_memory_free(client, own[i]);
    gemmd_client_free(client);
}

/* ---- the GPU's own memory ---- */

/* A request on a connection of its own; the status, or 0. */
static int post(const char *path, const char *body, char *answer, size_t room)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char head[512];
    size_t got = 0;
    ssize_t part;
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", url + strlen("unix:"));
    int length = snprintf(head, sizeof head,
                          "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n"
                          "Connection: close\r\n\r\n",
                          path, strlen(body));
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
        send(fd, head, (size_t)length, MSG_NOSIGNAL) == length)
        (void)!send(fd, body, strlen(body), MSG_NOSIGNAL);
    while (got + 1 < room && (part = recv(fd, answer + got, room - 1 - got, 0)) > 0)
        got += (size_t)part;
    answer[got] = '\0';
    close(fd);
    return got > 12 ? atoi(answer + 9) : 0;
}

static void base64(const unsigned char *bytes, size_t count, char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < count; i += 3) {
        uint32_t word = (uint32_t)bytes[i] << 16;
        word |= i + 1 < count ? (uint32_t)bytes[i + 1] << 8 : 0;
        word |= i + 2 < count ? bytes[i + 2] : 0;
        for (int d = 0; d < 4; d++)
            *out++ = (size_t)d > count - i ? '=' : digits[word >> (18 - 6 * d) & 63];
    }
    *out = '\0';
}

static void check_device(uint64_t side, const float *a, const float *b, const float *expected)
{
    const uint64_t bytes = side * side * sizeof(float);
    static char answer[8192];
    char body[2048], handle[96];
    cudaIpcMemHandle_t ipc = {{0}};
    char *memory = NULL;
    float *c = malloc(bytes);
    int right = cudaMalloc((void **)&memory, 3 * bytes) == cudaSuccess &&
                cudaMemcpy(memory, a, bytes, cudaMemcpyHostToDevice) == cudaSuccess &&
                cudaMemcpy(memory + bytes, b, bytes, cudaMemcpyHostToDevice) == cudaSuccess &&
                cudaMemset(memory + 2 * bytes, 0x5a, bytes) == cudaSuccess &&
                cudaDeviceSynchronize() == cudaSuccess &&
                cudaIpcGetMemHandle(&ipc, memory) == cudaSuccess;
    snprintf(answer, sizeof answer, "CUDA: %s", cudaGetErrorString(cudaGetLastError()));
    base64((const unsigned char *)&ipc, sizeof ipc, handle);
    snprintf(body, sizeof body,
             "{\"raw_handle\":{\"b64\":\"%s\"},\"device_id\":0,\"byte_size\":%llu}", handle,
             (unsigned long long)(3 * bytes + 1));
    /* What lies behind an allocation is another's. The runtime rounds small ones up. */
    if (right && side >= 1024)
        expect(post("/v2/cudasharedmemory/region/more/register", body, answer, sizeof answer) ==
                   400,
               "a handle's memory has an end", side, answer);
    snprintf(body, sizeof body,
             "{\"raw_handle\":{\"b64\":\"%s\"},\"device_id\":0,\"byte_size\":%llu}", handle,
             (unsigned long long)(3 * bytes));
    right = right &&
            post("/v2/cudasharedmemory/region/gpu/register", body, answer, sizeof answer) == 200;
    char part[3][160];
    for (int i = 0; i < 3; i++)
        snprintf(
            part[i], sizeof part[i],
            "\"parameters\":{\"shared_memory_region\":\"gpu\",\"shared_memory_byte_size\":%llu,"
            "\"shared_memory_offset\":%llu}",
            (unsigned long long)bytes, (unsigned long long)(bytes * (uint64_t)i));
    snprintf(body, sizeof body,
             "{\"inputs\":[{\"name\":\"A\",\"datatype\":\"FP32\",\"shape\":[%llu,%llu],%s},"
             "{\"name\":\"B\",\"datatype\":\"FP32\",\"shape\":[%llu,%llu],%s}],"
             "\"outputs\":[{\"name\":\"C\",%s}]}",
             (unsigned long long)side, (unsigned long long)side, part[0], (unsigned long long)side,
             (unsigned long long)side, part[1], part[2]);
    right = right && post("/v2/models/gemm_fp32/infer", body, answer, sizeof answer) == 200 &&
            cudaMemcpy(c, memory + 2 * bytes, bytes, cudaMemcpyDeviceToHost) == cudaSuccess &&
            memcmp(c, expected, bytes) == 0;
    expect(right, "in the GPU's memory", side, answer);
    (void)post("/v2/cudasharedmemory/unregister", "", answer, sizeof answer);
    cudaFree(memory);
    free(c);
}

static void check_side(uint64_t side)
{
    const uint64_t count = side * side;
    float *a = malloc(count * 4), *b = malloc(count * 4), *c = malloc(count * 4);
    struct gemmd_error_info error;
    struct gemmd_client *client = client_of(GEMMD_SHARED_NEVER, 0);
    fill(a, count, 1);
    fill(b, count, 2);
    const struct gemmd_gemm gemm = product(side, a, b, c);
    if (client == NULL || gemmd_gemm(client, &gemm, NULL, &error) != GEMMD_OK) {
        expect(0, "over the socket", side, client == NULL ? "" : error.message);
    } else {
        check_client("copied into shared memory", GEMMD_SHARED_ALWAYS, 0, side, a, b, c);
        check_client("made in shared memory", GEMMD_SHARED_AUTO, 1, side, a, b, c);
        check_device(side, a, b, c);
    }
    gemmd_client_free(client);
    free(a);
    free(b);
    free(c);
}

int main(int argc, char *argv[])
{
    static const uint64_t sides[] = {33, 64, 257, 1024, 4096};
    if (argc != 2 || strncmp(argv[1], "unix:", 5) != 0) {
        fprintf(stderr, "Usage: gemmd-gpu-shared-check unix:PATH\n");
        return 2;
    }
    url = argv[1];
    setvbuf(stdout, NULL, _IOLBF, 0); /* a log that is cut off has what was done */
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++)
        check_side(sides[i]);
    printf("%d passed, %d failed\n", passes, failures);
    return failures > 0;
}
