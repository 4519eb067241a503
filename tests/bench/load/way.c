#include "tests/bench/load/way.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/bench/load/device_memory.h"
#include "tests/bench/load/exchange.h"

const char *const way_names[WAY_COUNT] = {"tcp", "unix", "memfd", "system", "cuda"};

enum { JSON_MAX = 2048 };

/* `headers`: more of them, each with its line's end. */
static bool make_head(struct way_connection *connection, const char *path, const char *headers,
                      size_t body_bytes)
{
    struct target *target = &connection->target;
    int length = snprintf(target->head, sizeof target->head,
                          "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n%s\r\n",
                          path, body_bytes, headers);
    target->head_bytes = (size_t)length;
    return length > 0 && target->head_bytes < sizeof target->head;
}

/* A request with a JSON body, which fits into the head. */
static bool make_json(struct way_connection *connection, const char *path, const char *json)
{
    struct target *target = &connection->target;
    const size_t bytes = strlen(json);
    target->body_bytes = 0;
    if (!make_head(connection, path, "", bytes) || target->head_bytes + bytes > sizeof target->head)
        return false;
    memcpy(target->head + target->head_bytes, json, bytes);
    target->head_bytes += bytes;
    return true;
}

static bool make_gemm(struct way_connection *connection, const char *headers, size_t body_bytes)
{
    const unsigned long long side = connection->problem->side;
    char path[128];
    snprintf(path, sizeof path, "/gemm?m=%llu&n=%llu&k=%llu", side, side, side);
    return make_head(connection, path, headers, body_bytes);
}

/* ---- each way ---- */

static bool open_bodies(struct way_connection *connection)
{
    struct target *target = &connection->target;
    target->body = (void *)(uintptr_t)connection->problem->operands;
    target->body_bytes = 2 * connection->problem->matrix_bytes;
    return make_gemm(connection, "Content-Type: application/octet-stream\r\n", target->body_bytes);
}

/* The object's memory, with the operands in it. */
static bool map(struct way_connection *connection, int fd)
{
    const struct way_problem *problem = connection->problem;
    const size_t bytes = 3 * problem->matrix_bytes;
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        return false;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return false;
    connection->memory = memory;
    memcpy(memory, problem->operands, 2 * problem->matrix_bytes);
    return true;
}

/* An empty line, and the descriptor with it. */
static bool send_descriptor(int socket, int fd)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr aligned;
    } control = {{0}};
    char line[] = "\r\n";
    struct iovec part = {line, 2};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    return sendmsg(socket, &message, MSG_NOSIGNAL) == 2;
}

static bool open_memfd(struct way_connection *connection)
{
    const unsigned long long bytes = connection->problem->matrix_bytes;
    char header[128];
    int fd = memfd_create("gemmd-bench", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    snprintf(header, sizeof header, "Gemmd-Memory: a=0, b=%llu, c=%llu\r\n", bytes, 2 * bytes);
    bool open = map(connection, fd) && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0 &&
                send_descriptor(connection->fd, fd) && make_gemm(connection, header, 0);
    if (fd >= 0)
        close(fd);
    return open;
}

/* Registers a region, and makes the request that names it. */
static bool open_region(struct way_connection *connection, const char *kind, const char *name,
                        const char *what)
{
    const unsigned long long side = connection->problem->side,
                             bytes = connection->problem->matrix_bytes;
    static const char *const tensors[] = {"A", "B", "C"};
    char path[128], json[JSON_MAX];
    snprintf(path, sizeof path, "/v2/%ssharedmemory/region/%s/register", kind, name);
    snprintf(json, sizeof json, "{%s,\"byte_size\":%llu}", what, 3 * bytes);
    if (!make_json(connection, path, json) ||
        !exchange(&connection->target, connection->fd, &connection->answer, NULL, 0))
        return false;
    int length = snprintf(json, sizeof json, "{\"inputs\":[");
    for (unsigned i = 0; i < 3; i++) {
        length += snprintf(json + length, sizeof json - (size_t)length, "%s{\"name\":\"%s\",",
                           i == 1   ? ","
                           : i == 2 ? "],\"outputs\":["
                                    : "",
                           tensors[i]);
        if (i < 2)
            length += snprintf(json + length, sizeof json - (size_t)length,
                               "\"datatype\":\"FP32\",\"shape\":[%llu,%llu],", side, side);
        length += snprintf(json + length, sizeof json - (size_t)length,
                           "\"parameters\":{\"shared_memory_region\":\"%s\","
                           "\"shared_memory_byte_size\":%llu,\"shared_memory_offset\":%llu}}",
                           name, bytes, i * bytes);
    }
    snprintf(json + length, sizeof json - (size_t)length, "]}");
    return make_json(connection, "/v2/models/gemm_fp32/infer", json);
}

static bool open_system(struct way_connection *connection, const char *name)
{
    char what[128];
    snprintf(connection->key, sizeof connection->key, "/%s", name);
    int fd = shm_open(connection->key, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
    const bool mapped = map(connection, fd);
    if (fd >= 0)
        close(fd);
    snprintf(what, sizeof what, "\"key\":\"%s\"", connection->key);
    return mapped && open_region(connection, "system", name, what);
}

static bool open_cuda(struct way_connection *connection, const char *name)
{
    const struct way_problem *problem = connection->problem;
    char handle[DEVICE_MEMORY_HANDLE_TEXT], what[256];
    connection->device_memory = device_memory_open(3 * problem->matrix_bytes, problem->operands,
                                                   2 * problem->matrix_bytes, handle);
    if (connection->device_memory == NULL)
        return false;
    snprintf(what, sizeof what, "\"raw_handle\":{\"b64\":\"%s\"},\"device_id\":0", handle);
    return open_region(connection, "cuda", name, what);
}

bool way_open(struct way_connection *connection, enum way way, const struct way_problem *problem,
              uint32_t number)
{
    char name[48];
    *connection = (struct way_connection){.problem = problem, .way = way};
    connection->target.address = way == WAY_TCP ? problem->tcp : problem->unix_socket;
    connection->fd = target_connect(&connection->target);
    if (connection->fd < 0)
        return false;
    snprintf(name, sizeof name, "gemmd-bench-%ld-%u", (long)getpid(), number);
    switch (way) {
    case WAY_MEMFD:
        return open_memfd(connection);
    case WAY_SYSTEM:
        return open_system(connection, name);
    case WAY_CUDA:
        return open_cuda(connection, name);
    default:
        return open_bodies(connection);
    }
}

bool way_ask(struct way_connection *connection)
{
    return exchange(&connection->target, connection->fd, &connection->answer, NULL, 0);
}

bool way_ask_result(struct way_connection *connection, void *result)
{
    const uint64_t bytes = connection->problem->matrix_bytes;
    const bool sent = connection->memory == NULL && connection->device_memory == NULL;
    if (!exchange(&connection->target, connection->fd, &connection->answer, sent ? result : NULL,
                  bytes))
        return false;
    if (connection->memory != NULL)
        memcpy(result, connection->memory + 2 * bytes, bytes);
    return connection->device_memory == NULL ||
           device_memory_read(connection->device_memory, 2 * bytes, result, bytes);
}

/* The region's name goes first: what it names would else outlive the process. */
void way_close(struct way_connection *connection)
{
    char path[128];
    if (connection->fd >= 0 && (connection->way == WAY_SYSTEM || connection->way == WAY_CUDA)) {
        snprintf(path, sizeof path, "/v2/%ssharedmemory/unregister", way_names[connection->way]);
        if (make_json(connection, path, ""))
            (void)exchange(&connection->target, connection->fd, &connection->answer, NULL, 0);
    }
    if (connection->memory != NULL)
        munmap(connection->memory, 3 * connection->problem->matrix_bytes);
    if (connection->key[0] != '\0')
        shm_unlink(connection->key);
    device_memory_close(connection->device_memory);
    if (connection->fd >= 0)
        close(connection->fd);
}
