#include "client/shared_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "client/client.h"
#include "client/failure.h"
#include "client/mapping.h"
#include "client/transfer.h"
#include "proto/size.h"

/* Below this length, sending a body through the socket is as fast as sharing the memory. */
#define WORTH_BYTES (UINT64_C(256) * 1024)

/* If the options give no size, the first mapping has FIRST_BYTES, and larger mappings of up to
 * GROWN_BYTES replace it when needed. A large first mapping would be wasteful, since a
 * daemon with a GPU pins the whole mapping, whether or not the client uses all of it. */
#define FIRST_BYTES (UINT64_C(64) << 20)
#define GROWN_BYTES (UINT64_C(1) << 30)
#define SIZE_STEP (UINT64_C(2) << 20)

/* SLACK: the bytes that aligning all parts of a request adds at most. */
enum { ALIGNMENT = 64, ALLOC_ALIGNMENT = 64, SLACK = ALIGNMENT * (BODY_PIECES_MAX + 1) };

/* ---- the client's mappings ---- */

/* Releases the replaced mappings of which no block is in use any more. */
static void free_replaced(struct shared_memory_client *shared)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < shared->replaced_count; i++) {
        if (mapping_is_in_use(shared->replaced[i]))
            shared->replaced[kept++] = shared->replaced[i];
        else
            mapping_free(shared->replaced[i]);
    }
    shared->replaced_count = kept;
}

/* Returns the size of the next mapping, in which `needed` bytes should fit; 0: a mapping of that
 * size is not allowed. */
static uint64_t next_mapping_bytes(const struct gemmd_client *client, uint64_t needed)
{
    const struct mapping *mapping = client->shared_memory.mapping;
    uint64_t bytes = mapping != NULL ? 2 * mapping_bytes(mapping) : FIRST_BYTES;
    if (client->options.shared_bytes != 0)
        return client->options.shared_bytes;
    if (bytes < needed && !size_align(needed, SIZE_STEP, &bytes))
        return 0;
    if (client->options.shared != GEMMD_SHARED_ALWAYS && bytes > GROWN_BYTES)
        bytes = needed > GROWN_BYTES ? 0 : GROWN_BYTES;
    return bytes;
}

/* Makes a new mapping the current one. The replaced mapping is released once none of its blocks is
 * in use. Returns the new mapping; NULL if no mapping can be made. */
static struct mapping *replace_mapping(struct gemmd_client *client, uint64_t bytes)
{
    struct shared_memory_client *shared = &client->shared_memory;
    free_replaced(shared);
    if (bytes == 0 ||
        shared->replaced_count == sizeof shared->replaced / sizeof shared->replaced[0])
        return NULL;
    struct mapping *mapping = mapping_new(bytes, shared->made_count++);
    if (mapping == NULL)
        return NULL;
    if (shared->mapping != NULL)
        shared->replaced[shared->replaced_count++] = shared->mapping;
    shared->mapping = mapping;
    return mapping;
}

/* Returns the mapping that new requests use; NULL if no mapping can be made. */
static struct mapping *current_mapping(struct gemmd_client *client, uint64_t needed)
{
    struct mapping *mapping = client->shared_memory.mapping;
    if (mapping == NULL)
        return replace_mapping(client, next_mapping_bytes(client, needed));
    if (mapping_is_worn(mapping))
        return replace_mapping(client, mapping_bytes(mapping));
    return mapping;
}

/* Replaces the mapping with a larger one, unless the options give the size of mappings. NULL: the
 * mapping stays. */
static struct mapping *grow_mapping(struct gemmd_client *client, uint64_t needed)
{
    const uint64_t bytes = next_mapping_bytes(client, needed);
    return client->options.shared_bytes == 0 && bytes > mapping_bytes(client->shared_memory.mapping)
               ? replace_mapping(client, bytes)
               : NULL;
}

void shared_memory_close(struct gemmd_client *client)
{
    struct shared_memory_client *shared = &client->shared_memory;
    for (uint32_t i = 0; i < shared->replaced_count; i++)
        mapping_free(shared->replaced[i]);
    mapping_free(shared->mapping);
}

void shared_memory_disown(struct gemmd_client *client)
{
    struct shared_memory_client *shared = &client->shared_memory;
    const uint32_t room = sizeof shared->replaced / sizeof shared->replaced[0];
    for (uint32_t i = 0; i < shared->replaced_count; i++)
        mapping_make_private(shared->replaced[i]);
    free_replaced(shared);
    if (shared->mapping == NULL)
        return;
    mapping_make_private(shared->mapping);
    if (shared->replaced_count == room) { /* the mapping holds memory of the caller */
        shared->refused = true;
        return;
    }
    shared->replaced[shared->replaced_count++] = shared->mapping;
    shared->mapping = NULL;
    free_replaced(shared);
}

static bool shared_memory_is_possible(const struct gemmd_client *client)
{
    return client->address.unix_path != NULL && client->options.shared != GEMMD_SHARED_NEVER &&
           !client->shared_memory.refused;
}

void *shared_memory_alloc(struct gemmd_client *client, uint64_t bytes,
                          struct gemmd_error_info *error)
{
    void *block = NULL;
    struct mapping *mapping =
        shared_memory_is_possible(client) ? current_mapping(client, bytes) : NULL;
    if (mapping != NULL)
        block = mapping_take(mapping, bytes);
    if (mapping != NULL && block == NULL && (mapping = grow_mapping(client, bytes)) != NULL)
        block = mapping_take(mapping, bytes);
    if (block == NULL && posix_memalign(&block, ALLOC_ALIGNMENT, bytes > 0 ? bytes : 1) != 0) {
        block = NULL;
        failure_set(error, GEMMD_ERR_OUT_OF_MEMORY, NULL, "there is no memory for %llu bytes",
                    (unsigned long long)bytes);
    }
    return block;
}

void shared_memory_free(struct gemmd_client *client, void *block)
{
    struct shared_memory_client *shared = &client->shared_memory;
    if (shared->mapping != NULL && mapping_give(shared->mapping, block))
        return;
    for (uint32_t i = 0; i < shared->replaced_count; i++)
        if (mapping_give(shared->replaced[i], block))
            return;
    free(block);
}

/* ---- the shared memory of a request ---- */

static void add_location(struct shared_memory *shared, const char *name, uint64_t offset)
{
    struct memory_location *location = &shared->locations.locations[shared->locations.count++];
    snprintf(location->name, sizeof location->name, "%s", name);
    location->offset = offset;
}

/* Returns whether the caller's buffer for the result lies in the mapping. */
static bool result_is_shared(const struct gemmd_request *request, const struct mapping *mapping,
                             uint64_t *offset)
{
    const struct answer_buffer *buffer = &request->sink.data;
    return buffer->data != NULL && !buffer->owned &&
           mapping_has(mapping, buffer->data, request->expected.bytes, offset);
}

/* Computes how many bytes have to be copied, and whether sharing memory is worth the copies. False
 * on overflow. */
static bool measure_copies(const struct gemmd_request *request, const struct mapping *mapping,
                           uint64_t *copied, bool *worth)
{
    const struct body *body = &request->body;
    uint64_t total = 0, offset;
    *copied = 0;
    *worth = request->client->options.shared == GEMMD_SHARED_ALWAYS;
    for (uint32_t i = 0; i < body->count; i++) {
        const struct body_piece *piece = &body->pieces[i];
        if (piece->name == NULL)
            continue;
        total += piece->bytes; /* no overflow: the length of the body is a sum that includes these
                                  bytes */
        if (mapping_has(mapping, piece->data, piece->bytes, &offset))
            *worth = true;
        else if (!size_add(*copied, piece->bytes, copied) ||
                 !size_align(*copied, ALIGNMENT, copied))
            return false;
    }
    if (request->shared_memory.result != NULL) {
        if (result_is_shared(request, mapping, &offset))
            *worth = true;
        else if (!size_add(*copied, request->expected.bytes, copied))
            return false;
    }
    *worth |= total >= WORTH_BYTES || request->expected.bytes >= WORTH_BYTES;
    return true;
}

/* Copies the operands that are not in the mapping yet, and lists the locations of all operands and
 * of the result. */
static void copy_operands(struct gemmd_request *request, struct mapping *mapping)
{
    struct shared_memory *shared = &request->shared_memory;
    const struct body *body = &request->body;
    uint64_t at = 0, offset;
    body_init(&shared->rest);
    shared->locations.count = 0;
    for (uint32_t i = 0; i < body->count; i++) {
        const struct body_piece *piece = &body->pieces[i];
        if (piece->name == NULL) {
            (void)body_append(&shared->rest, piece->data, piece->bytes);
            continue;
        }
        if (!mapping_has(mapping, piece->data, piece->bytes, &offset)) {
            memcpy(shared->block + at, piece->data, piece->bytes);
            (void)mapping_has(mapping, shared->block + at, piece->bytes, &offset);
            at = (at + piece->bytes + ALIGNMENT - 1) / ALIGNMENT *
                 ALIGNMENT; /* no overflow: measure_copies */
        }
        add_location(shared, piece->name, offset);
    }
    if (shared->result == NULL)
        return;
    if (!result_is_shared(request, mapping, &offset)) {
        shared->copied = shared->block + at;
        (void)mapping_has(mapping, shared->copied, request->expected.bytes, &offset);
    }
    add_location(shared, shared->result, offset);
}

static enum gemmd_error no_shared_memory(struct gemmd_request *request, uint64_t bytes)
{
    const struct gemmd_client *client = request->client;
    if (client->options.shared != GEMMD_SHARED_ALWAYS)
        return GEMMD_OK; /* the request is sent without shared memory */
    return failure_set(&request->error, GEMMD_ERR_OUT_OF_MEMORY, "shared_bytes",
                       "the request needs %llu bytes of shared memory, and fewer are free",
                       (unsigned long long)bytes);
}

enum gemmd_error shared_memory_begin(struct gemmd_request *request)
{
    struct gemmd_client *client = request->client;
    struct shared_memory *shared = &request->shared_memory;
    uint64_t copied = 0;
    bool worth = false;
    shared->used = false;
    if (!shared->possible || !shared_memory_is_possible(client))
        return GEMMD_OK;
    if (shared->mapping != NULL) { /* an earlier attempt has copied the operands */
        shared->used = true;
        return GEMMD_OK;
    }
    struct mapping *mapping = current_mapping(client, 0);
    if (mapping == NULL || !measure_copies(request, mapping, &copied, &worth))
        return no_shared_memory(request, copied);
    if (!worth)
        return GEMMD_OK;
    if (copied > 0)
        shared->block = mapping_take(mapping, copied);
    if (copied > 0 && shared->block == NULL) {
        mapping = grow_mapping(client, request->body.bytes + request->expected.bytes + SLACK);
        if (mapping == NULL || !measure_copies(request, mapping, &copied, &worth))
            return no_shared_memory(request, copied);
        shared->block = mapping_take(mapping, copied);
        if (shared->block == NULL)
            return no_shared_memory(request, copied);
    }
    shared->mapping = mapping;
    shared->used = true;
    copy_operands(request, mapping);
    return GEMMD_OK;
}

struct body *shared_memory_body(struct gemmd_request *request)
{
    return request->shared_memory.used ? &request->shared_memory.rest : &request->body;
}

void shared_memory_collect(struct gemmd_request *request)
{
    const struct shared_memory *shared = &request->shared_memory;
    struct sink *sink = &request->sink;
    if (!shared->used || shared->result == NULL)
        return;
    if (shared->copied != NULL)
        memcpy(sink->data.data, shared->copied, request->expected.bytes);
    sink->bytes = request->expected.bytes;
}

bool shared_memory_end(struct gemmd_request *request, int status)
{
    struct shared_memory *shared = &request->shared_memory;
    /* The daemon has computed the request or has never begun it. After a deadline or a lost
     * connection, by contrast, the daemon may still be computing. */
    const bool over = (status >= 200 && status < 500) || status == 501 || status == 507;
    if (!shared->used)
        return false;
    shared->lost |= !over;
    if ((status != 501 && status != 507) || request->client->options.shared != GEMMD_SHARED_AUTO)
        return false;
    request->client->shared_memory.refused = true;
    return true;
}

void shared_memory_release(struct gemmd_request *request)
{
    struct shared_memory *shared = &request->shared_memory;
    if (shared->block != NULL && shared->lost)
        mapping_lose(shared->mapping, shared->block);
    else if (shared->block != NULL)
        (void)mapping_give(shared->mapping, shared->block);
    shared->block = NULL;
    shared->mapping = NULL;
}

/* ---- connections ---- */

void shared_memory_base(const struct gemmd_request *request, char out[SHARED_MEMORY_BASE_MAX])
{
    snprintf(out, SHARED_MEMORY_BASE_MAX, "http://memory-%u.localhost",
             mapping_number(request->shared_memory.mapping));
}

/* Sends the first line of a connection, which is empty and carries the mapping's descriptor. */
static bool send_descriptor(int fd, int mapping)
{
    char line[] = "\r\n";
    union {
        char bytes[CMSG_SPACE(sizeof mapping)];
        struct cmsghdr aligned;
    } control = {{0}};
    struct iovec part = {line, sizeof line - 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof mapping);
    memcpy(CMSG_DATA(header), &mapping, sizeof mapping);
    return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)part.iov_len;
}

curl_socket_t shared_memory_open_socket(void *user, curlsocktype purpose,
                                        struct curl_sockaddr *address)
{
    struct transfer *transfer = user;
    transfer->opened = loop_open_socket(&transfer->request->client->loop, purpose, address);
    return transfer->opened;
}

/* libcurl gives a transfer the connection that was opened for the transfer. libcurl calls this
 * function more than once in an attempt if a kept connection turns out to be closed: libcurl then
 * sends the request again. */
int shared_memory_before_request(void *user, char *peer, char *own, int peer_port, int own_port)
{
    struct transfer *transfer = user;
    const int fd = transfer->opened;
    transfer->request->shared_memory.lost |= transfer->issued++ > 0;
    (void)peer;
    (void)own;
    (void)peer_port;
    (void)own_port;
    transfer->opened = -1;
    return fd < 0 || send_descriptor(fd, mapping_fd(transfer->request->shared_memory.mapping))
               ? CURL_PREREQFUNC_OK
               : CURL_PREREQFUNC_ABORT;
}
