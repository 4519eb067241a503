#include "server/api/services.h"

#include <stdlib.h>

#include "proto/dtype.h"
#include "server/base/json_whole.h"
#include "server/http/io_thread.h"

struct pool_cache *services_memory(const struct request *request)
{
    return request->thread->services;
}

void *services_thread_create(void *services)
{
    return pool_cache_create(((struct services *)services)->pool);
}

void services_thread_destroy(void *thread_services)
{
    pool_cache_destroy(thread_services);
}

enum gemmd_error services_check(struct request *request)
{
    if (atomic_load(&request->server->stage) == HTTP_CLOSING)
        return fault_set(&request->fault, GEMMD_ERR_DRAINING, NULL, "the daemon is shutting down");
    if (executors_are_lost(&services_of(request)->executors))
        return fault_set(&request->fault, GEMMD_ERR_DEVICE_LOST, NULL, "the device is lost");
    return GEMMD_OK;
}

uint32_t services_retry_after_s(const struct request *request, enum gemmd_error code,
                                uint64_t bytes)
{
    struct admission *admission = services_of(request)->admission;
    if (code == GEMMD_ERR_QUEUE_FULL)
        return admission_wait_s(admission, request->tenant_number, bytes);
    if (code == GEMMD_ERR_OUT_OF_MEMORY)
        return admission_drain_s(admission, bytes);
    return 1;
}

json_t *services_peak_json(const struct device_info *info)
{
    json_t *flops = json_object();
    bool whole = flops != NULL;
    for (int dtype = 0; dtype < GEMMD_DTYPE_COUNT; dtype++)
        if (info->peak_flops[dtype] > 0)
            whole &= json_object_set_new(flops, dtype_name((enum gemmd_dtype)dtype),
                                         json_real(info->peak_flops[dtype])) == 0;
    return json_pack("{s:o, s:f}", "flops", json_whole(flops, whole), "bytes_per_second",
                     info->peak_memory_bytes);
}

struct sent_block {
    struct pool_cache *memory;
    void *block;
    uint64_t bytes;
    struct reservation reservation;
};

struct sent_block *sent_block_create(struct pool_cache *memory, void *block, uint64_t bytes,
                                     struct reservation *reservation)
{
    struct sent_block *sent = malloc(sizeof *sent);
    if (sent != NULL)
        *sent = (struct sent_block){memory, block, bytes, admission_move(reservation)};
    return sent;
}

void sent_block_end(void *sent_block)
{
    struct sent_block *sent = sent_block;
    pool_free(sent->memory, sent->block, sent->bytes);
    admission_give(&sent->reservation);
    free(sent);
}
