/* The answer of an inference. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/dtype.h"
#include "proto/oip_answer.h"
#include "proto/oip_data.h"
#include "server/clock.h"
#include "server/daemon.h"
#include "server/http/gemm_answer.h"
#include "server/http/respond.h"
#include "server/v2/infer.h"

/* What libmicrohttpd sends from, until the last byte has gone. */
struct sent_answer {
    struct pool_cache *memory;
    void *block; /* the result, or the JSON */
    uint64_t block_bytes;
    char head[OIP_ANSWER_HEAD_MAX]; /* before the result */
};

static void answer_sent(void *cls)
{
    struct sent_answer *sent = cls;
    pool_free(sent->memory, sent->block, sent->block_bytes);
    free(sent);
}

static uint32_t write_head(const struct request *request, char out[OIP_ANSWER_HEAD_MAX])
{
    const struct infer_call *call = request->infer;
    const struct oip_answer answer = {.model = call->model.name,
                                      .id = call->asked.id,
                                      .output = call->model.output.name,
                                      .tensor = &request->gemm.c,
                                      .binary = call->binary};
    return oip_answer_head(&answer, out);
}

static void out_of_memory(struct request *request)
{
    fault_set(&request->fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the answer");
    infer_fail(request);
}

static void succeed(struct request *request, struct MHD_Response *response, uint64_t length)
{
    struct infer_call *call = request->infer;
    struct headers headers;
    const struct gemm_times times = {request->started_ns, request->received_ns, clock_now_ns()};
    call->counted = true;
    model_stats_success(call->model.stats, &request->gemm.work,
                        times.answered_ns - times.started_ns);
    headers_clear(&headers);
    headers_add(&headers, "Content-Type",
                call->binary ? "application/octet-stream" : "application/json");
    gemm_answer_product_headers(&request->gemm, &times, &headers);
    headers_apply(&headers, response);
    respond(request, 200, response, length);
}

static void answer_binary(struct request *request)
{
    struct gemm_call *gemm = &request->gemm;
    char length[24];
    struct sent_answer *sent = malloc(sizeof *sent);
    if (sent == NULL) {
        out_of_memory(request);
        return;
    }
    const uint32_t head = write_head(request, sent->head);
    const struct MHD_IoVec parts[] = {{sent->head, head},
                                      {gemm->result, (size_t)gemm->result_bytes}};
    struct MHD_Response *response = MHD_create_response_from_iovec(parts, 2, answer_sent, sent);
    if (response == NULL) {
        free(sent);
        out_of_memory(request);
        return;
    }
    sent->memory = gemm->memory;
    sent->block = gemm->result;
    sent->block_bytes = gemm->result_bytes;
    gemm->result = NULL; /* the response's now */
    snprintf(length, sizeof length, "%u", head);
    MHD_add_response_header(response, "Inference-Header-Content-Length", length);
    succeed(request, response, head + sent->block_bytes);
}

/* Writes all of it, which --max-json bounds. False if the request was answered with an error. */
static bool write_text(struct request *request)
{
    struct infer_call *call = request->infer;
    const struct tensor *c = &request->gemm.c;
    char *numbers = call->text + write_head(request, call->text);
    char *end = oip_data_write(c, 0, c->bytes / dtype_size(c->dtype), numbers);
    if (end == NULL) {
        fault_set(&request->fault, GEMMD_ERR_UNSUPPORTED, NULL,
                  "the result has a NaN or an infinity, which JSON can't say; ask for binary data");
        infer_fail(request);
        return false;
    }
    memcpy(end, OIP_ANSWER_TAIL, sizeof OIP_ANSWER_TAIL - 1);
    call->text_length = (uint64_t)(end - call->text) + sizeof OIP_ANSWER_TAIL - 1;
    return true;
}

static void answer_text(struct request *request)
{
    struct infer_call *call = request->infer;
    if (!write_text(request))
        return;
    struct sent_answer *sent = malloc(sizeof *sent);
    struct MHD_Response *response = NULL;
    if (sent != NULL)
        response = MHD_create_response_from_buffer_with_free_callback_cls(
            (size_t)call->text_length, call->text, answer_sent, sent);
    if (response == NULL) {
        free(sent);
        out_of_memory(request);
        return;
    }
    sent->memory = request->gemm.memory;
    sent->block = call->text;
    sent->block_bytes = call->text_bytes;
    call->text = NULL; /* the response's now */
    succeed(request, response, call->text_length);
}

void infer_answer(struct request *request)
{
    const struct infer_call *call = request->infer;
    const struct gemm_call *gemm = &request->gemm;
    infer_end(request);
    if (gemm->work.status != GEMMD_OK) {
        request->fault = gemm->work.fault;
        infer_fail(request);
    } else if (call->binary) {
        answer_binary(request);
    } else {
        answer_text(request);
    }
}
