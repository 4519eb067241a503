#include "client/share.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "client/client.h"
#include "client/failure.h"
#include "client/memory.h"
#include "client/transfer.h"
#include "proto/size.h"

/* Below this, a body that is sent at one go is no slower. */
#define WORTH_BYTES (UINT64_C(256) * 1024)

/* A memory whose size is not given begins with the first, and is replaced by larger ones up to the
 * second: a GPU pins all of it, used or not. */
#define FIRST_BYTES (UINT64_C(64) << 20)
#define GROWN_BYTES (UINT64_C(1) << 30)
#define SIZE_STEP (UINT64_C(2) << 20)

/* SLACK: what aligning all parts of a request can add. */
enum { ALIGNMENT = 64, ALLOC_ALIGNMENT = 64, SLACK = ALIGNMENT * (BODY_PIECES_MAX + 1) };

/* ---- the client's memory ---- */

/* Lets go of those whose blocks have all come back. */
static void sweep(struct share_client *share)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < share->worn_count; i++) {
        if (memory_is_in_use(share->worn[i]))
            share->worn[kept++] = share->worn[i];
        else
            memory_free(share->worn[i]);
    }
    share->worn_count = kept;
}

/* How large the next memory is to be, for something that takes `needed` bytes; 0: it cannot be. */
static uint64_t next_size(const struct gemmd_client *client, uint64_t needed)
{
    const struct memory *memory = client->share.memory;
    uint64_t bytes = memory != NULL ? 2 * memory_bytes(memory) : FIRST_BYTES;
    if (client->options.shared_bytes != 0)
        return client->options.shared_bytes;
    if (bytes < needed && !size_align(needed, SIZE_STEP, &bytes))
        return 0;
    if (client->options.shared != GEMMD_SHARED_ALWAYS && bytes > GROWN_BYTES)
        bytes = needed > GROWN_BYTES ? 0 : GROWN_BYTES;
    return bytes;
}

/* A new memory in place of the one there is, which goes when its blocks have come back. */
static struct memory *replace(struct gemmd_client *client, uint64_t bytes)
{
    struct share_client *share = &client->share;
    sweep(share);
    if (bytes == 0 || share->worn_count == sizeof share->worn / sizeof share->worn[0])
        return NULL;
    struct memory *memory = memory_new(bytes, share->made_count++);
    if (memory == NULL)
        return NULL;
    if (share->memory != NULL)
        share->worn[share->worn_count++] = share->memory;
    share->memory = memory;
    return memory;
}

/* The memory that new requests use; NULL if there is none to be had. */
static struct memory *memory_of(struct gemmd_client *client, uint64_t needed)
{
    struct memory *memory = client->share.memory;
    if (memory == NULL)
        return replace(client, next_size(client, needed));
    if (memory_is_worn(memory))
        return replace(client, memory_bytes(memory));
    return memory;
}

/* A larger one, if its size is the library's to choose. */
static struct memory *grow(struct gemmd_client *client, uint64_t needed)
{
    const uint64_t bytes = next_size(client, needed);
    return client->options.shared_bytes == 0 && bytes > memory_bytes(client->share.memory)
               ? replace(client, bytes)
               : NULL;
}

void share_close(struct gemmd_client *client)
{
    struct share_client *share = &client->share;
    for (uint32_t i = 0; i < share->worn_count; i++)
        memory_free(share->worn[i]);
    memory_free(share->memory);
}

static bool can_share(const struct gemmd_client *client)
{
    return client->address.unix_path != NULL && client->options.shared != GEMMD_SHARED_NEVER &&
           !client->share.refused;
}

void *gemmd_memory_alloc(struct gemmd_client *client, uint64_t bytes,
                         struct gemmd_error_info *error)
{
    void *block = NULL;
    struct memory *memory = can_share(client) ? memory_of(client, bytes) : NULL;
    failure_clear(error);
    if (memory != NULL)
        block = memory_take(memory, bytes);
    if (memory != NULL && block == NULL && (memory = grow(client, bytes)) != NULL)
        block = memory_take(memory, bytes);
    if (block == NULL && posix_memalign(&block, ALLOC_ALIGNMENT, bytes > 0 ? bytes : 1) != 0) {
        block = NULL;
        failure_set(error, GEMMD_ERR_OUT_OF_MEMORY, NULL, "there is no memory for %llu bytes",
                    (unsigned long long)bytes);
    }
    return block;
}

void gemmd_memory_free(struct gemmd_client *client, void *block)
{
    struct share_client *share = &client->share;
    if (block == NULL || (share->memory != NULL && memory_give(share->memory, block)))
        return;
    for (uint32_t i = 0; i < share->worn_count; i++)
        if (memory_give(share->worn[i], block))
            return;
    free(block);
}

/* ---- a request's ---- */

static void name_place(struct share *share, const char *name, uint64_t offset)
{
    struct memory_place *place = &share->places.places[share->places.count++];
    snprintf(place->name, sizeof place->name, "%s", name);
    place->offset = offset;
}

/* Whether the caller has the result in the memory. */
static bool result_is_shared(const struct gemmd_request *request, const struct memory *memory,
                             uint64_t *offset)
{
    const struct answer_buffer *buffer = &request->sink.data;
    return buffer->data != NULL && !buffer->owned &&
           memory_has(memory, buffer->data, request->expected.bytes, offset);
}

/* How much has to be copied, and whether that, or what is there already, is worth it. False on
 * overflow. */
static bool measure(const struct gemmd_request *request, const struct memory *memory,
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
        total += piece->bytes; /* of what the body adds up to */
        if (memory_has(memory, piece->data, piece->bytes, &offset))
            *worth = true;
        else if (!size_add(*copied, piece->bytes, copied) ||
                 !size_align(*copied, ALIGNMENT, copied))
            return false;
    }
    if (request->share.result != NULL) {
        if (result_is_shared(request, memory, &offset))
            *worth = true;
        else if (!size_add(*copied, request->expected.bytes, copied))
            return false;
    }
    *worth |= total >= WORTH_BYTES || request->expected.bytes >= WORTH_BYTES;
    return true;
}

/* Copies what is not there yet, and names all places. */
static void lay_out(struct gemmd_request *request, struct memory *memory)
{
    struct share *share = &request->share;
    const struct body *body = &request->body;
    uint64_t at = 0, offset;
    body_init(&share->rest);
    share->places.count = 0;
    for (uint32_t i = 0; i < body->count; i++) {
        const struct body_piece *piece = &body->pieces[i];
        if (piece->name == NULL) {
            (void)body_append(&share->rest, piece->data, piece->bytes);
            continue;
        }
        if (!memory_has(memory, piece->data, piece->bytes, &offset)) {
            memcpy(share->block + at, piece->data, piece->bytes);
            (void)memory_has(memory, share->block + at, piece->bytes, &offset);
            at = (at + piece->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; /* measured */
        }
        name_place(share, piece->name, offset);
    }
    if (share->result == NULL)
        return;
    if (!result_is_shared(request, memory, &offset)) {
        share->copied = share->block + at;
        (void)memory_has(memory, share->copied, request->expected.bytes, &offset);
    }
    name_place(share, share->result, offset);
}

static enum gemmd_error cannot(struct gemmd_request *request, uint64_t bytes)
{
    const struct gemmd_client *client = request->client;
    if (client->options.shared != GEMMD_SHARED_ALWAYS)
        return GEMMD_OK; /* without, then */
    return failure_set(&request->error, GEMMD_ERR_OUT_OF_MEMORY, "shared_bytes",
                       "the request needs %llu bytes of shared memory, and fewer are free",
                       (unsigned long long)bytes);
}

enum gemmd_error share_begin(struct gemmd_request *request)
{
    struct gemmd_client *client = request->client;
    struct share *share = &request->share;
    uint64_t copied = 0;
    bool worth = false;
    share->used = false;
    if (!share->possible || !can_share(client))
        return GEMMD_OK;
    if (share->memory != NULL) { /* laid out for an attempt before this one */
        share->used = true;
        return GEMMD_OK;
    }
    struct memory *memory = memory_of(client, 0);
    if (memory == NULL || !measure(request, memory, &copied, &worth))
        return cannot(request, copied);
    if (!worth)
        return GEMMD_OK;
    if (copied > 0)
        share->block = memory_take(memory, copied);
    if (copied > 0 && share->block == NULL) {
        memory = grow(client, request->body.bytes + request->expected.bytes + SLACK);
        if (memory == NULL || !measure(request, memory, &copied, &worth))
            return cannot(request, copied);
        share->block = memory_take(memory, copied);
        if (share->block == NULL)
            return cannot(request, copied);
    }
    share->memory = memory;
    share->used = true;
    lay_out(request, memory);
    return GEMMD_OK;
}

struct body *share_body(struct gemmd_request *request)
{
    return request->share.used ? &request->share.rest : &request->body;
}

void share_collect(struct gemmd_request *request)
{
    const struct share *share = &request->share;
    struct sink *sink = &request->sink;
    if (!share->used || share->result == NULL)
        return;
    if (share->copied != NULL)
        memcpy(sink->data.data, share->copied, request->expected.bytes);
    sink->bytes = request->expected.bytes;
}

bool share_end(struct gemmd_request *request, int status)
{
    struct share *share = &request->share;
    /* It was computed, or never begun: what a deadline or a lost connection cuts off may go on. */
    const bool over = (status >= 200 && status < 500) || status == 501 || status == 507;
    if (!share->used)
        return false;
    share->lost |= !over;
    if ((status != 501 && status != 507) || request->client->options.shared != GEMMD_SHARED_AUTO)
        return false;
    request->client->share.refused = true;
    return true;
}

void share_release(struct gemmd_request *request)
{
    struct share *share = &request->share;
    if (share->block != NULL && share->lost)
        memory_lose(share->memory, share->block);
    else if (share->block != NULL)
        (void)memory_give(share->memory, share->block);
    share->block = NULL;
    share->memory = NULL;
}

/* ---- connections ---- */

void share_base(const struct gemmd_request *request, char out[SHARE_BASE_MAX])
{
    snprintf(out, SHARE_BASE_MAX, "http://memory-%u.localhost",
             memory_number(request->share.memory));
}

/* The first line of a connection: empty, with the descriptor. */
static bool introduce(int fd, int memory)
{
    char line[] = "\r\n";
    union {
        char bytes[CMSG_SPACE(sizeof memory)];
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
    header->cmsg_len = CMSG_LEN(sizeof memory);
    memcpy(CMSG_DATA(header), &memory, sizeof memory);
    return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)part.iov_len;
}

curl_socket_t share_open_socket(void *user, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct transfer *transfer = user;
    transfer->opened = loop_open_socket(&transfer->request->client->loop, purpose, address);
    return transfer->opened;
}

/* libcurl gives a transfer the connection that was opened for it. It sends a request again by
 * itself if a connection that it had kept turns out to be closed. */
int share_before_request(void *user, char *peer, char *own, int peer_port, int own_port)
{
    struct transfer *transfer = user;
    const int fd = transfer->opened;
    transfer->request->share.lost |= transfer->issued++ > 0;
    (void)peer;
    (void)own;
    (void)peer_port;
    (void)own_port;
    transfer->opened = -1;
    return fd < 0 || introduce(fd, memory_fd(transfer->request->share.memory))
               ? CURL_PREREQFUNC_OK
               : CURL_PREREQFUNC_ABORT;
}
