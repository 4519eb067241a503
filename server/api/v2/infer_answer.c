/* The answer of an inference. */
#include <stdlib.h>
#include <string.h>

#include "proto/dtype.h"
#include "proto/number.h"
#include "proto/oip_answer.h"
#include "proto/oip_data.h"
#include "server/api/compute/call_sequence.h"
#include "server/api/compute/compute_call.h"
#include "server/api/services.h"
#include "server/api/v2/infer_call.h"
#include "server/base/clock.h"
#include "server/http/respond.h"

/* The memory that libmicrohttpd sends from, to be freed when the answer was sent. */
struct sent_answer {
    struct pool_cache *memory;
    void *result, *text; /* `compute.result` and `text` of struct infer_call */
    uint64_t result_bytes, text_bytes;
    struct reservation reservation;
};

static void answer_sent(void *cls)
{
    struct sent_answer *sent = cls;
    pool_free(sent->memory, sent->result, sent->result_bytes);
    pool_free(sent->memory, sent->text, sent->text_bytes);
    admission_give(&sent->reservation);
    free(sent);
}

static bool is_binary(const struct infer_call *call)
{
    for (uint32_t i = 0; i < call->output_count; i++)
        if (call->outputs[i].binary)
            return true;
    return false;
}

/* Writes the answer's JSON, whose length --max-json limits, and returns its length. */
static uint64_t infer_write_json(struct request *request, char *out, uint64_t room)
{
    const struct infer_call *call = infer_of(request);
    struct json_text json;
    json_text_start(&json, out, room);
    oip_answer_begin(&json, call->model.name, call->asked.id);
    for (uint32_t i = 0; i < call->output_count; i++) {
        const struct infer_output *output = &call->outputs[i];
        const struct tensor *result = infer_result(request, output);
        oip_answer_output(&json, &(struct oip_answer_output){output->tensor->name, result,
                                                             output->binary, output->in_region});
        if (output->binary || output->in_region)
            continue;
        const char *end = oip_data_write(result, 0, result->bytes / dtype_size(result->dtype),
                                         json.out + json.length);
        json.length = (uint64_t)(end - json.out);
        oip_answer_numbers_end(&json);
    }
    return oip_answer_end(&json);
}

static void infer_fail_out_of_memory(struct request *request)
{
    fault_set(&request->fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the answer");
    infer_fail(request);
}

/* Adds the headers of an answer whose JSON is `json_bytes` bytes long. */
static void add_infer_headers(struct request *request, uint64_t json_bytes,
                              const struct compute_times *times, struct headers *headers)
{
    char length[DECIMAL_MAX + 1];
    headers_clear(headers);
    if (is_binary(infer_of(request))) {
        *decimal_u64(length, json_bytes) = '\0';
        headers_add(headers, "Inference-Header-Content-Length", length);
    }
    headers_add(headers, "Content-Type",
                is_binary(infer_of(request)) ? "application/octet-stream" : "application/json");
    compute_call_product_headers(&infer_of(request)->compute, times, headers);
}

static void count_success(struct infer_call *call, const struct compute_times *times)
{
    const struct work *work = &call->compute.work;
    const struct model_stages stages = {
        .queue_ns = work->started_ns - work->queued_ns,
        .input_ns = work->h2d_ns,
        .infer_ns = work->kernel_ns,
        .output_ns = work->d2h_ns,
        .total_ns = times->answered_ns - times->started_ns,
        .launch_requests = work->launch_works,
    };
    call->counted = true;
    model_stats_success(call->model.stats, &stages);
}

/* Appends an output to the payload. An output that lies directly after the last part extends that
 * part. */
static void add_part(struct payload *payload, const struct tensor *output)
{
    struct MHD_IoVec *last = &payload->parts[payload->count - 1];
    if ((const char *)last->iov_base + last->iov_len == output->data)
        last->iov_len += (size_t)output->bytes;
    else
        payload->parts[payload->count++] = (struct MHD_IoVec){output->data, (size_t)output->bytes};
}

static void infer_respond(struct request *request)
{
    struct infer_call *call = infer_of(request);
    struct compute_call *compute = &call->compute;
    _Static_assert(1 + (int)MODEL_OUTPUTS_MAX <= (int)PAYLOAD_PARTS_MAX, "all outputs fit");
    const bool in_front = call->text == NULL;
    char *json = in_front ? (char *)compute->result : call->text;
    const uint64_t room = in_front ? compute->header_bytes : call->text_bytes;
    struct headers headers;
    struct sent_answer *sent = malloc(sizeof *sent);
    if (sent == NULL) {
        infer_fail_out_of_memory(request);
        return;
    }
    const uint64_t json_length = infer_write_json(request, json, room);
    /* The JSON is moved directly before the result, so that both are one part of the payload, which
     * takes one system call and in most cases one TCP segment. */
    if (in_front)
        json = memmove(json + room - json_length, json, json_length);
    struct payload payload = {
        .parts = {{json, (size_t)json_length}}, .count = 1, .sent = answer_sent, .context = sent};
    for (uint32_t i = 0; i < call->output_count; i++)
        if (call->outputs[i].binary)
            add_part(&payload, infer_result(request, &call->outputs[i]));
    sent->reservation = admission_move(&compute->reservation);
    sent->memory = compute->memory;
    sent->result = compute->result;
    sent->result_bytes = compute->header_bytes + compute->result_bytes;
    sent->text = call->text;
    sent->text_bytes = call->text_bytes;
    compute->result = NULL; /* `sent` owns both blocks now */
    call->text = NULL;
    const struct compute_times times = {request->started_ns, request->received_ns, clock_now_ns()};
    add_infer_headers(request, json_length, &times, &headers);
    if (respond(request, 200, &headers, &payload))
        count_success(call, &times);
}

void infer_answer(struct request *request)
{
    struct compute_call *compute = &infer_of(request)->compute;
    call_sequence_commit(compute, services_of(request));
    infer_end(request);
    if (compute->work.status != GEMMD_OK) {
        request->fault = compute->work.fault;
        infer_fail(request);
    } else {
        infer_respond(request);
    }
}
