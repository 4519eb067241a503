/* The client library: a byte that chooses a function, and the daemon's answer to the request, which
 * a thread sends over a Unix socket. A call ends, a result has what was asked for, and an error
 * says what was wrong. */
#include <gemmd/gemmd.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fuzz.h"

enum {
    TOTAL_TIMEOUT_MS = 20000,
    JOB_TIMEOUT_MS = 200, /* of a wait for a job that is never done */
    OPERATIONS = 15,
    RESULT_OF_JOB = 5, /* of the OPERATIONS; this one and the next wait for a job */
    WAIT_FOR_JOB = 10,
    ANSWER_MAX = 64 * 1024
};

/* The daemon's answer. The thread may still have a connection of the input before. */
static pthread_mutex_t answer_lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t answer[ANSWER_MAX];
static size_t answer_bytes;

static void discard(int fd, const char *until)
{
    char head[4096 + 1];
    size_t length = 0;
    for (;;) {
        const ssize_t got = recv(fd, head + length, sizeof head - 1 - length, 0);
        if (got <= 0)
            return;
        length += (size_t)got;
        head[length] = '\0';
        if (until != NULL && strstr(head, until) != NULL)
            return;
        if (until == NULL || length == sizeof head - 1)
            length = 0;
    }
}

/* Answers the head of a request, and reads until the client closes the connection. */
static void *serve(void *listener)
{
    for (;;) {
        const int fd = accept(*(int *)listener, NULL, NULL);
        MUST(fd >= 0);
        discard(fd, "\r\n\r\n");
        pthread_mutex_lock(&answer_lock);
        (void)!send(fd, answer, answer_bytes, MSG_NOSIGNAL);
        pthread_mutex_unlock(&answer_lock);
        shutdown(fd, SHUT_WR);
        discard(fd, NULL);
        close(fd);
    }
    return NULL;
}

/* Returns the URL of the listening socket. */
static const char *start_server(void)
{
    static int listener = -1;
    static char url[sizeof "unix:" + sizeof((struct sockaddr_un *)0)->sun_path];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    pthread_t thread;
    if (listener >= 0)
        return url;
    snprintf(address.sun_path, sizeof address.sun_path, "/tmp/fuzz_client.%d", (int)getpid());
    snprintf(url, sizeof url, "unix:%s", address.sun_path);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    unlink(address.sun_path);
    MUST(bind(listener, (const struct sockaddr *)&address, sizeof address) == 0);
    MUST(listen(listener, 8) == 0);
    MUST(pthread_create(&thread, NULL, serve, &listener) == 0);
    pthread_detach(thread);
    return url;
}

static void remove_socket(void)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/fuzz_client.%d", (int)getpid());
    unlink(path);
}

static void check_tensor(const struct gemmd_tensor *tensor, void *user)
{
    (void)user;
    MUST(tensor->name[0] != '\0' && memchr(tensor->name, '\0', sizeof tensor->name) != NULL);
    MUST(tensor->rank >= 1 && tensor->rank <= 8 && tensor->bytes >= 1);
}

/* Texts of the daemon lie in arrays, each with its end. */
static void check_result(const struct gemmd_result *result, uint64_t bytes)
{
    MUST(memchr(result->kernel, '\0', sizeof result->kernel) != NULL);
    MUST(memchr(result->request_id, '\0', sizeof result->request_id) != NULL);
    MUST(memchr(result->etag, '\0', sizeof result->etag) != NULL);
    MUST(memchr(result->job, '\0', sizeof result->job) != NULL);
    MUST(result->rank <= 8);
    if (bytes != 0)
        MUST(result->data != NULL && result->bytes == bytes);
}

static enum gemmd_error multiply(struct gemmd_client *client, struct gemmd_result *result,
                                 struct gemmd_error_info *error)
{
    static const float operand[] = {1, 2, 3, 4};
    struct gemmd_gemm gemm;
    gemmd_gemm_init(&gemm, sizeof gemm);
    gemm.m = gemm.n = gemm.k = 2;
    gemm.a = gemm.b = operand;
    const enum gemmd_error code = gemmd_gemm(client, &gemm, result, error);
    if (code == GEMMD_OK) {
        check_result(result, sizeof operand);
        MUST(result->dtype == GEMMD_F32 && result->rank == 2);
    }
    return code;
}

static enum gemmd_error attend(struct gemmd_client *client, struct gemmd_result *result,
                               struct gemmd_error_info *error)
{
    static const uint16_t operand[24];
    struct gemmd_attention attention;
    gemmd_attention_init(&attention, sizeof attention);
    attention.heads = 2;
    attention.sq = 3;
    attention.d = 4;
    attention.q = attention.k = attention.v = operand;
    attention.with_lse = 1;
    const enum gemmd_error code = gemmd_attention(client, &attention, result, error);
    if (code == GEMMD_OK) {
        check_result(result, sizeof operand);
        MUST(result->lse != NULL && result->lse_bytes == 6 * sizeof(float));
    }
    return code;
}

static enum gemmd_error put(struct gemmd_client *client, struct gemmd_result *result,
                            struct gemmd_error_info *error)
{
    static const float data[] = {1, 2, 3, 4};
    struct gemmd_tensor_put tensor;
    gemmd_tensor_put_init(&tensor, sizeof tensor);
    tensor.name = "t";
    tensor.rank = 1;
    tensor.dims[0] = 4;
    tensor.data = data;
    return gemmd_tensor_put(client, &tensor, result, error);
}

static void check_sequence(const struct gemmd_sequence *sequence, void *user)
{
    (void)user;
    MUST(sequence->name[0] != '\0' && memchr(sequence->name, '\0', sizeof sequence->name) != NULL);
    MUST(memchr(sequence->etag, '\0', sizeof sequence->etag) != NULL);
    MUST(sequence->layers >= 1 && sequence->layers <= GEMMD_SEQUENCE_LAYERS_MAX);
    MUST(sequence->kv_heads >= 1 && sequence->d >= 1 && sequence->dv >= 1);
}

static enum gemmd_error fetch_positions(struct gemmd_client *client, struct gemmd_result *result,
                                        struct gemmd_error_info *error)
{
    struct gemmd_sequence_get get;
    gemmd_sequence_get_init(&get, sizeof get);
    get.name = "s";
    const enum gemmd_error code = gemmd_sequence_get(client, &get, result, error);
    if (code == GEMMD_OK)
        check_result(result, result->bytes);
    return code;
}

static enum gemmd_error call_one(unsigned which, struct gemmd_client *client,
                                 struct gemmd_result *result, struct gemmd_error_info *error)
{
    static const char id[] = "00000000000000000000000000000000";
    struct gemmd_job job = {.size = sizeof job};
    struct gemmd_sequence sequence = {.size = sizeof sequence};
    char *text = NULL;
    enum gemmd_error code;
    switch (which % OPERATIONS) {
    case 0:
        return multiply(client, result, error);
    case 1:
        return gemmd_tensor_get(client, "t", NULL, result, error);
    case 2:
        return put(client, result, error);
    case 3:
        return gemmd_tensor_list(client, check_tensor, NULL, error);
    case 4:
        code = gemmd_job_status(client, id, NULL, &job, error);
        if (code == GEMMD_OK)
            MUST(memchr(job.id, '\0', sizeof job.id) != NULL);
        return code;
    case RESULT_OF_JOB:
        return gemmd_job_result(client, id, NULL, result, error);
    case 6:
        code = gemmd_info(client, &text, error);
        MUST((code == GEMMD_OK) == (text != NULL));
        gemmd_free(text);
        return code;
    case 7:
        return attend(client, result, error);
    case 8:
        return gemmd_tensor_stat(client, "t", NULL, result, error);
    case 9:
        return gemmd_tensor_delete(client, "t", NULL, error);
    case WAIT_FOR_JOB:
        return gemmd_job_wait(client, id, NULL, result, error);
    case 12:
        code = gemmd_sequence_truncate(client, "s", 1, NULL, &sequence, error);
        if (code == GEMMD_OK)
            check_sequence(&sequence, NULL);
        return code;
    case 13:
        return gemmd_sequence_list(client, check_sequence, NULL, error);
    case 14:
        return fetch_positions(client, result, error);
    default:
        return gemmd_job_cancel(client, id, NULL, error);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct gemmd_options options;
    struct gemmd_result result;
    struct gemmd_error_info error;
    static bool registered;
    if (!registered)
        registered = atexit(remove_socket) == 0;
    if (length == 0 || length > ANSWER_MAX)
        return 0;
    pthread_mutex_lock(&answer_lock);
    answer_bytes = length - 1;
    memcpy(answer, bytes + 1, answer_bytes);
    pthread_mutex_unlock(&answer_lock);
    gemmd_options_init(&options, sizeof options);
    gemmd_result_init(&result, sizeof result);
    options.url = start_server();
    options.retries = 0;
    /* A wait asks again after each 409, which says that the job is not done, until its time is
     * over. */
    const int operation = bytes[0] % OPERATIONS;
    const bool waits = operation == RESULT_OF_JOB || operation == WAIT_FOR_JOB;
    options.total_timeout_ms = waits ? JOB_TIMEOUT_MS : TOTAL_TIMEOUT_MS;
    options.shared = GEMMD_SHARED_NEVER;
    struct gemmd_client *client = gemmd_client_new(&options, &error);
    MUST(client != NULL);
    const enum gemmd_error code = call_one(bytes[0], client, &result, &error);
    if (code != GEMMD_OK) {
        MUST(error.code == code && error.message[0] != '\0');
        MUST(memchr(error.message, '\0', sizeof error.message) != NULL);
        MUST(code != GEMMD_ERR_USAGE && (waits || code != GEMMD_ERR_TIMEOUT));
    }
    gemmd_free(result.data);
    gemmd_free(result.lse);
    gemmd_client_free(client);
    return 0;
}
