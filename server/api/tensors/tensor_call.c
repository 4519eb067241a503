#include "server/api/tensors/tensor_call.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/size.h"
#include "proto/size_text.h"
#include "server/api/services.h"
#include "server/base/clock.h"
#include "server/base/owner.h"
#include "server/http/respond.h"

/* The bytes that are hashed in one iteration of the I/O thread's loop. They take less than a
 * millisecond, even on a CPU without instructions for SHA. */
static const uint64_t PIECE_BYTES = 128 * 1024;

struct tensor_call *tensor_call_open(struct request *request)
{
    if (!tensor_name_valid(request->rest)) {
        fault_set(&request->fault, GEMMD_ERR_MALFORMED, "name",
                  "a tensor's name is 1 to 128 of the characters A-Z a-z 0-9 . _ -");
        return NULL;
    }
    struct tensor_call *call = request->call;
    call->request = request;
    call->condition = (struct tensor_condition){request_header(request, "If-Match"),
                                                request_header(request, "If-None-Match")};
    return tensor_condition_check(&call->condition, &request->fault) == GEMMD_OK ? call : NULL;
}

void tensor_call_end_copy(struct tensor_call *call)
{
    /* A work that was withdrawn has not been launched. */
    const bool complete = call->work.status == GEMMD_OK && call->work.launch_works > 0;
    tensor_store_end_copy(services_of(call->request)->tensors, call->resident, call->copy,
                          complete);
    call->copy = NULL;
}

void tensor_call_close(struct tensor_call *call)
{
    if (call->request == NULL)
        return; /* tensor_call_open was never called */
    struct pool_cache *memory = services_memory(call->request);
    pool_free(memory, call->block, call->block_bytes);
    pool_free(memory, call->scratch, call->scratch_bytes);
    free(call->sequence_copies);
    tensor_call_end_copy(call);
    tensor_store_release(services_of(call->request)->tensors, call->resident);
    admission_give(&call->reservation);
}

enum gemmd_error tensor_call_admit(struct tensor_call *call, uint64_t bytes)
{
    call->queue_bytes = bytes;
    return executors_admit(&services_of(call->request)->executors, call->request->tenant_number,
                           bytes, &call->reservation, &call->request->fault);
}

enum gemmd_error tensor_call_admit_more(struct tensor_call *call, uint64_t bytes)
{
    const enum gemmd_error code = admission_grow(&call->reservation, bytes, &call->request->fault);
    if (code == GEMMD_OK)
        call->queue_bytes = bytes;
    return code;
}

enum gemmd_error tensor_call_take_block(struct tensor_call *call)
{
    struct request *request = call->request;
    call->block = pool_alloc(services_memory(request), call->block_bytes, &request->fault);
    return call->block != NULL ? GEMMD_OK : GEMMD_ERR_OUT_OF_MEMORY;
}

static enum gemmd_error grow_block(struct tensor_call *call, uint64_t needed)
{
    struct request *request = call->request;
    struct pool_cache *memory = services_memory(request);
    uint64_t limit = request->config->max_body_bytes, bytes = call->block_bytes;
    if (call->length_known)
        return fault_set(&request->fault, GEMMD_ERR_MALFORMED, NULL,
                         "the body has more than the %" PRIu64 " bytes that its shape takes",
                         call->total_bytes);
    if (needed > limit)
        return fault_set(&request->fault, GEMMD_ERR_TOO_LARGE, NULL,
                         "the body is longer than --max-body, which is %s", size_text(limit).text);
    while (bytes < needed)
        bytes = bytes > limit / 2 ? limit : bytes * 2;
    enum gemmd_error code = tensor_call_admit_more(call, bytes);
    if (code != GEMMD_OK)
        return code;
    unsigned char *block = pool_alloc(memory, bytes, &request->fault);
    if (block == NULL)
        return GEMMD_ERR_OUT_OF_MEMORY;
    memcpy(block, call->block, call->received_bytes);
    pool_free(memory, call->block, call->block_bytes);
    call->block = block;
    call->block_bytes = bytes;
    return GEMMD_OK;
}

enum gemmd_error tensor_call_receive(struct tensor_call *call, const void *bytes, uint64_t length)
{
    uint64_t needed;
    if (!size_add(call->received_bytes, length, &needed))
        return fault_set(&call->request->fault, GEMMD_ERR_TOO_LARGE, NULL,
                         "the body's size overflows");
    if (needed > call->block_bytes && grow_block(call, needed) != GEMMD_OK)
        return call->request->fault.code;
    memcpy(call->block + call->received_bytes, bytes, length);
    call->received_bytes = needed;
    return GEMMD_OK;
}

/* Adds the times of the call's last copy, if it has run, to those of the copies before. */
static void add_times(const struct tensor_call *call, uint64_t *queue_ns, uint64_t *copy_ns)
{
    const struct work *work = &call->work;
    const bool has_run = work->launch_works > 0 && work->started_ns > work->queued_ns;
    *queue_ns = call->queue_ns + (has_run ? work->started_ns - work->queued_ns : 0);
    *copy_ns = call->copy_ns + (has_run ? work->d2h_ns : 0);
}

/* Adds the times of the call's copies, which have ended. */
static void add_timing(const struct tensor_call *call, struct headers *headers)
{
    const struct request *request = call->request;
    uint64_t queue_ns, copy_ns;
    add_times(call, &queue_ns, &copy_ns);
    const struct header_stage stages[] = {
        {"recv;dur=", request->received_ns - request->started_ns},
        {", queue;dur=", queue_ns},
        {", copy;dur=", copy_ns},
        {", total;dur=", clock_now_ns() - request->started_ns},
    };
    headers_add_timing(headers, stages, sizeof stages / sizeof *stages);
}

void tensor_call_describe(struct tensor_call *call, int status, char *text, const char *etag,
                          const char *folder)
{
    char location[16 + GEMM_TENSOR_NAME_MAX];
    struct headers headers;
    if (text == NULL) {
        respond_out_of_memory(call->request);
        return;
    }
    headers_clear(&headers);
    headers_add(&headers, "Content-Type", "application/json");
    headers_add(&headers, "ETag", etag);
    if (status == 201) {
        snprintf(location, sizeof location, "/%s/%s", folder, resident_name(call->resident));
        headers_add(&headers, "Location", location);
    }
    if (call->queue != NULL)
        add_timing(call, &headers);
    const struct payload payload = {.parts = {{text, strlen(text)}},
                                    .count = 1,
                                    .sent = free,
                                    .context = text,
                                    .as_it_is = true};
    respond(call->request, status, &headers, &payload);
}

void tensor_call_send_block(struct tensor_call *call, const struct headers *headers)
{
    void *block = call->block;
    admission_keep(&call->reservation, call->block_bytes);
    struct sent_block *sent = sent_block_create(services_memory(call->request), block,
                                                call->block_bytes, &call->reservation);
    if (sent == NULL) {
        respond_out_of_memory(call->request);
        return;
    }
    call->block = NULL;
    const struct payload payload = {.parts = {{block, (size_t)call->block_bytes}},
                                    .count = 1,
                                    .sent = sent_block_end,
                                    .context = sent,
                                    .as_it_is = true};
    respond(call->request, 200, headers, &payload);
}

/* Sets the deadline of the copy from the daemon's default timeout. Requests for tensors have no
 * timeout of their own, and the time limits of an upload have ended here. */
static void set_deadline(struct tensor_call *call)
{
    const uint64_t timeout_ms = call->request->config->default_timeout_ms;
    call->deadline_ns = timeout_ms != 0 ? clock_now_ns() + timeout_ms * 1000000u : 0;
    request_set_deadline(call->request, call->deadline_ns);
}

static void tensor_copy_done(struct work *work)
{
    struct tensor_call *call = OWNER_OF(work, struct tensor_call, work);
    request_wake(call->request);
}

/* The bytes that copies move, which count for the tenant's share of the device. */
static uint64_t bytes_of(const struct work_copy *copies, uint32_t count)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        bytes += copies[i].rows * copies[i].row_bytes;
    return bytes;
}

void tensor_call_times(const struct request *request, struct log_access *entry)
{
    const struct tensor_call *call = request->call;
    const bool receives = request->received_bytes > 0;
    entry->copies = call->queue != NULL;
    add_times(call, &entry->queue_ns, receives ? &entry->h2d_ns : &entry->d2h_ns);
}

static void prepare_copy(struct tensor_call *call, const struct work_copy *copies, uint32_t count,
                         uint32_t device)
{
    set_deadline(call);
    add_times(call, &call->queue_ns, &call->copy_ns);
    call->queue = services_of(call->request)->executors.list[device].queue;
    call->work = (struct work){
        .copy_count = count,
        .sequence_copies = call->sequence_copies,
        .sequence_copy_count = call->sequence_copy_count,
        .tenant = call->request->tenant_number,
        .priority = request_default_priority(call->request),
        .bytes = call->sends_meanwhile ? bytes_of(copies, count) : call->queue_bytes,
        .deadline_ns = call->deadline_ns,
        .queued_ns = clock_now_ns(),
        .done = tensor_copy_done,
    };
    if (count > 0)
        memcpy(call->work.copies, copies, count * sizeof *copies);
}

void tensor_call_copy(struct tensor_call *call, const struct work_copy *copies, uint32_t count,
                      uint32_t device)
{
    const bool again = call->queue != NULL;
    prepare_copy(call, copies, count, device);
    /* Before queue_push: the work may be done at once. */
    if (again)
        request_hand_over_again(call->request);
    else
        request_hand_over(call->request);
    queue_push(call->queue, &call->work);
}

void tensor_call_copy_rest(struct tensor_call *call, const struct work_copy *copies, uint32_t count,
                           uint32_t device)
{
    prepare_copy(call, copies, count, device);
    request_hand_over_rest(call->request);
    queue_push(call->queue, &call->work);
}

bool tensor_call_withdraw(struct tensor_call *call)
{
    if (!queue_cancel(call->queue, &call->work))
        return false;
    if (!call->sends_meanwhile) /* else the answer is still being sent */
        admission_give(&call->reservation);
    return true;
}

enum gemmd_error tensor_call_copied(struct tensor_call *call)
{
    admission_give(&call->reservation);
    if (call->work.status != GEMMD_OK)
        call->request->fault = call->work.fault;
    return call->work.status;
}

void tensor_call_hash_from(struct tensor_call *call, const struct tensor *tensor, const void *bytes)
{
    tensor_hash_start(&call->hash, tensor);
    call->hashed = bytes;
    call->hashed_bytes = 0;
}

void tensor_call_hash_to(struct tensor_call *call, uint64_t limit, bool piece)
{
    uint64_t left = limit > call->hashed_bytes ? limit - call->hashed_bytes : 0;
    if (piece && left > PIECE_BYTES)
        left = PIECE_BYTES;
    tensor_hash_add(&call->hash, call->hashed + call->hashed_bytes, left);
    call->hashed_bytes += left;
}

bool tensor_call_hash_packed(struct tensor_call *call)
{
    const struct packed_file *file = &call->packed;
    if (call->hashed_entries == file->count)
        return true;
    const struct safetensors_entry *entry = &file->entries[call->hashed_entries];
    if (call->hashed == NULL) {
        if (call->hashed_entries == 0)
            tensor_hash_start_packed(&call->hash, file);
        tensor_hash_entry(&call->hash, entry);
        call->hashed = entry->tensor.data;
        call->hashed_bytes = 0;
    }
    tensor_call_hash_to(call, entry->tensor.bytes, true);
    if (call->hashed_bytes == entry->tensor.bytes) {
        call->hashed_entries++;
        call->hashed = NULL;
    }
    return call->hashed_entries == file->count;
}
