#include "server/api/v2/region_endpoints.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base64.h"
#include "server/api/counted_text.h"
#include "server/api/services.h"
#include "server/base/json_whole.h"
#include "server/base/owner.h"
#include "server/http/connection.h"
#include "server/http/request.h"
#include "server/http/respond.h"

static enum shm_kind kind_of(const struct request *request)
{
    static const char cuda[] = "/v2/cuda";
    return strncmp(request->endpoint->path, cuda, sizeof cuda - 1) == 0 ? SHM_CUDA : SHM_SYSTEM;
}

enum gemmd_error region_owner_of(struct request *request, struct region_owner *owner)
{
    owner->tenant = request->tenant_number;
    return connection_user(request->connection, &owner->user)
               ? GEMMD_OK
               : fault_set(&request->fault, GEMMD_ERR_FORBIDDEN, NULL,
                           "shared memory is for clients on the daemon's own host, over a Unix "
                           "socket or its loopback address");
}

/* GEMMD_ERR_NOT_IMPLEMENTED if the extension of the request's path is off. */
static enum gemmd_error check_served(struct request *request)
{
    const struct config *config = request->config;
    const bool cuda = kind_of(request) == SHM_CUDA;
    if (cuda ? config->shm_cuda : config->shm_system)
        return GEMMD_OK;
    return fault_set(&request->fault, GEMMD_ERR_NOT_IMPLEMENTED, NULL,
                     "%s shared memory is off (--shm-%s); send tensors in the body",
                     cuda ? "CUDA" : "system", cuda ? "cuda" : "system");
}

/* Allows requests to remove regions if either extension is on. Clients that use one extension
 * remove the regions of both, and the extension that is off has none. */
static enum gemmd_error check_any_served(struct request *request)
{
    const struct config *config = request->config;
    return config->shm_system || config->shm_cuda ? GEMMD_OK : check_served(request);
}

static const char *name_or_all(const struct request *request)
{
    return request->name[0] != '\0' ? request->name : NULL;
}

/* ---- status and unregister ---- */

static void region_describe(void *context, const struct region *region)
{
    json_t *entry =
        region->kind == SHM_CUDA
            ? json_pack("{s:s, s:i, s:I}", "name", region->name, "device_id", (int)region->device,
                        "byte_size", (json_int_t)region->bytes)
            : json_pack("{s:s, s:s, s:I, s:I}", "name", region->name, "key", region->key, "offset",
                        (json_int_t)region->offset, "byte_size", (json_int_t)region->bytes);
    json_array_append_new(context, entry);
}

void region_status_begin(struct request *request)
{
    struct region_owner owner;
    json_t *list = json_array();
    uint32_t count = 0;
    if (connection_user(request->connection, &owner.user)) {
        owner.tenant = request->tenant_number;
        count = regions_each(services_of(request)->regions, owner, kind_of(request),
                             name_or_all(request), region_describe, list);
    }
    if (request->name[0] != '\0' && count == 0) {
        json_decref(list);
        fault_set(&request->fault, GEMMD_ERR_NOT_FOUND, NULL,
                  "there is no shared memory region '%.128s' of this client's", request->name);
        request_refuse(request);
        return;
    }
    const bool whole = list != NULL && json_array_size(list) == count;
    respond_counted_text(request, NULL, json_whole_text(json_whole(list, whole), JSON_COMPACT));
}

void region_unregister_begin(struct request *request)
{
    struct region_owner owner;
    if (check_any_served(request) != GEMMD_OK || region_owner_of(request, &owner) != GEMMD_OK) {
        request_refuse(request);
        return;
    }
    regions_remove(services_of(request)->regions, owner, kind_of(request), name_or_all(request));
    respond_static(request, 200, "application/json", "", 0);
}

/* ---- register ---- */

void region_register_begin(struct request *request)
{
    struct region_owner owner;
    enum gemmd_error code = check_served(request);
    if (code == GEMMD_OK)
        code = region_owner_of(request, &owner);
    if (code == GEMMD_OK && !region_is_name(request->name))
        code = fault_set(&request->fault, GEMMD_ERR_MALFORMED, NULL,
                         "a region's name has 1 to 128 of the characters A-Z a-z 0-9 . _ -");
    if (code != GEMMD_OK) {
        request_refuse(request);
        return;
    }
    struct region_call *call = request->call;
    call->request = request;
    call->owner = owner;
    call->region.kind = call->offer.kind = kind_of(request);
    memcpy(call->region.name, request->name, strlen(request->name) + 1);
    request_receive(request, 0);
}

bool region_register_chunk(struct request *request, const void *bytes, uint64_t length)
{
    struct region_call *call = request->call;
    if (length > REGION_BODY_MAX - call->bytes) {
        fault_set(&request->fault, GEMMD_ERR_TOO_LARGE, NULL,
                  "the body is longer than the %d bytes that are read", REGION_BODY_MAX);
        return false;
    }
    memcpy(call->body + call->bytes, bytes, length);
    call->bytes += length;
    return true;
}

/* Reads a member of a JSON object that is a whole number from 0. Returns false if the member is not
 * such a number, or is missing and not optional. */
static bool take_whole(const json_t *object, const char *name, bool optional, uint64_t *out)
{
    const json_t *value = json_object_get(object, name);
    *out = 0;
    if (value == NULL)
        return optional;
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *out = (uint64_t)json_integer_value(value);
    return true;
}

static enum gemmd_error read_system(struct region_call *call, const json_t *root)
{
    struct shm_offer *offer = &call->offer;
    const json_t *key = json_object_get(root, "key");
    if (!json_is_string(key) || json_string_length(key) > SHM_KEY_MAX ||
        !take_whole(root, "offset", true, &offer->offset) ||
        !take_whole(root, "byte_size", false, &offer->bytes) || offer->bytes == 0)
        return fault_set(&call->request->fault, GEMMD_ERR_MALFORMED, NULL,
                         "the body is an object with key, the name that shm_open takes, byte_size "
                         "from 1 and perhaps offset");
    memcpy(offer->key, json_string_value(key), json_string_length(key) + 1);
    offer->user = call->owner.user;
    memcpy(call->region.key, offer->key, sizeof offer->key);
    call->region.offset = offer->offset;
    return GEMMD_OK;
}

static enum gemmd_error read_cuda(struct region_call *call, const json_t *root)
{
    struct shm_offer *offer = &call->offer;
    const json_t *b64 = json_object_get(json_object_get(root, "raw_handle"), "b64");
    uint64_t device;
    if (!json_is_string(b64) || !take_whole(root, "device_id", false, &device) ||
        device > INT32_MAX || !take_whole(root, "byte_size", false, &offer->bytes) ||
        offer->bytes == 0)
        return fault_set(&call->request->fault, GEMMD_ERR_MALFORMED, NULL,
                         "the body is an object with raw_handle, {\"b64\": a handle in base64}, "
                         "device_id and byte_size from 1");
    if (!base64_read(json_string_value(b64), json_string_length(b64), offer->handle.bytes,
                     sizeof offer->handle.bytes))
        return fault_set(&call->request->fault, GEMMD_ERR_MALFORMED, NULL,
                         "raw_handle is not the base64 of %d bytes", DEVICE_SHM_HANDLE_BYTES);
    offer->device = call->region.device = (int32_t)device;
    return GEMMD_OK;
}

static void region_mapped(struct shm_offer *offer)
{
    struct region_call *call = OWNER_OF(offer, struct region_call, offer);
    request_wake(call->request);
}

void region_register_submit(struct request *request)
{
    struct region_call *call = request->call;
    json_t *root = json_loadb(call->body, call->bytes, JSON_REJECT_DUPLICATES, NULL);
    enum gemmd_error code =
        kind_of(request) == SHM_CUDA ? read_cuda(call, root) : read_system(call, root);
    json_decref(root);
    if (code != GEMMD_OK) {
        respond_fault(request, &request->fault);
        return;
    }
    call->region.bytes = call->offer.bytes;
    call->offer.done = region_mapped;
    request_hand_over(request);
    shm_store_map(services_of(request)->shm_store, &call->offer);
}

void region_register_answer(struct request *request)
{
    struct region_call *call = request->call;
    call->region.mapping = call->offer.mapping;
    call->offer.mapping = NULL; /* `region` holds the reference now */
    if (call->region.mapping == NULL)
        request->fault = call->offer.fault;
    else
        regions_add(services_of(request)->regions, call->owner, &call->region, &request->fault);
    if (request->fault.code == GEMMD_OK)
        respond_static(request, 200, "application/json", "", 0);
    else
        respond_fault(request, &request->fault);
}

void region_register_release(struct request *request)
{
    struct region_call *call = request->call;
    /* Not NULL if the client disconnected before the region was registered. */
    shm_mapping_release(call->offer.mapping);
}
