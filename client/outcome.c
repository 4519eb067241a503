#include "client/outcome.h"

#include <stdio.h>
#include <string.h>

#include "client/callbacks.h"
#include "client/failure.h"
#include "client/unpack.h"

enum gemmd_error outcome_no_memory(struct gemmd_request *request)
{
    return failure_set(&request->error, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                       "there is no memory to send the request");
}

static enum gemmd_error outcome_answered_error(struct gemmd_request *request)
{
    struct transfer *transfer = request->transfer;
    struct gemmd_error_info *error = &request->error;
    curl_off_t seconds = 0;
    enum gemmd_error code = failure_from_answer(error, transfer->answer.status, transfer->document,
                                                transfer->document_bytes);
    if (transfer->answer.status == 404 && transfer->document_bytes == 0 &&
        request->operation->missing != NULL)
        snprintf(error->message, sizeof error->message, "%s", request->operation->missing);
    curl_easy_getinfo(transfer->easy, CURLINFO_RETRY_AFTER, &seconds);
    if (seconds > 0)
        error->retry_after_ms = seconds < UINT32_MAX / 1000 ? (uint32_t)seconds * 1000 : UINT32_MAX;
    if (transfer->answer.verify_fail)
        snprintf(error->field, sizeof error->field, "verify");
    return code;
}

static enum gemmd_error outcome_not_connected(struct gemmd_request *request)
{
    long number = 0;
    curl_easy_getinfo(request->transfer->easy, CURLINFO_OS_ERRNO, &number);
    const char *reason = number != 0 ? strerrordesc_np((int)number) : NULL;
    return failure_set(&request->error, GEMMD_ERR_CONNECTION, NULL, "no daemon answers at %s%s%s",
                       request->client->address.name, reason != NULL ? ": " : "",
                       reason != NULL ? reason : "");
}

static enum gemmd_error outcome_transport_error(struct gemmd_request *request, CURLcode result)
{
    const struct transfer *transfer = request->transfer;
    struct gemmd_error_info *error = &request->error;
    const char *name = request->client->address.name;
    const char *text =
        transfer->curl_error[0] != '\0' ? transfer->curl_error : curl_easy_strerror(result);
    switch (result) {
    case CURLE_OUT_OF_MEMORY:
        return outcome_no_memory(request);
    case CURLE_COULDNT_CONNECT:
        return outcome_not_connected(request);
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
        return failure_set(error, GEMMD_ERR_CONNECTION, NULL, "no daemon answers at %s: %s", name,
                           text);
    case CURLE_OPERATION_TIMEDOUT: /* libcurl's only timeout is that of connecting */
        return failure_set(error, GEMMD_ERR_CONNECTION, NULL,
                           "there was no connection to %s within %u ms", name,
                           request->client->options.connect_timeout_ms);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
        failure_set(error, GEMMD_ERR_CONNECTION, NULL, "%s is not trusted: %s", name, text);
        error->retriable = 0;
        return GEMMD_ERR_CONNECTION;
    case CURLE_SSL_CONNECT_ERROR:
        return failure_set(error, GEMMD_ERR_CONNECTION, NULL,
                           "there is no TLS connection to %s: %s", name, text);
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_BAD_CONTENT_ENCODING:
        return failure_set(error, GEMMD_ERR_PROTOCOL, NULL, "%s does not speak HTTP/1.1: %s", name,
                           text);
    case CURLE_PARTIAL_FILE:
        return failure_set(error, GEMMD_ERR_CONNECTION, NULL,
                           "the answer of %s ended after %llu of %llu bytes", name,
                           (unsigned long long)request->sink.bytes,
                           (unsigned long long)transfer->answer.length);
    default:
        return failure_set(error, GEMMD_ERR_CONNECTION, NULL, "the connection to %s was lost: %s",
                           name, text);
    }
}

/* Ends an answer that is no failure. */
static enum gemmd_error outcome_completed(struct gemmd_request *request)
{
    struct transfer *transfer = request->transfer;
    const struct operation *operation = request->operation;
    struct sink *sink = &request->sink;
    if (callback_accept(transfer) != GEMMD_OK)
        return transfer->refused;
    if (transfer->answer.status < 300 && answer_digest_check(transfer) != GEMMD_OK)
        return request->error.code;
    if (sink->kind == SINK_TEXT) {
        enum gemmd_error code = callback_grow_text(request, 0);
        if (code == GEMMD_OK)
            sink->data.data[sink->bytes] = '\0';
        return code;
    }
    if (sink->kind == SINK_TENSORS)
        return unpack_end(request);
    if (sink->kind == SINK_DATA && sink->bytes != sink->wanted)
        return failure_set(&request->error, GEMMD_ERR_PROTOCOL, NULL,
                           "the answer has %llu bytes and the result has %llu",
                           (unsigned long long)sink->bytes, (unsigned long long)sink->wanted);
    if (sink->kind == SINK_DATA)
        shared_memory_collect(request);
    if (sink->kind == SINK_NONE && operation->conclude != NULL)
        return operation->conclude(request, &transfer->answer, transfer->document,
                                   transfer->document_bytes);
    return GEMMD_OK;
}

enum gemmd_error outcome_of(struct gemmd_request *request, CURLcode result)
{
    struct transfer *transfer = request->transfer;
    const struct answer *answer = &transfer->answer;
    bool taken = operation_takes(request->operation, answer->status);
    if (transfer->refused != GEMMD_OK)
        return transfer->refused;
    /* The daemon's answer counts even if the body could not be sent completely after the answer. A
     * 412, which says that the body is not needed, is such an answer too. */
    if (answer->complete && answer->status >= 400)
        return taken ? outcome_completed(request) : outcome_answered_error(request);
    if (result != CURLE_OK)
        return outcome_transport_error(request, result);
    if (!taken)
        return failure_set(
            &request->error, GEMMD_ERR_PROTOCOL, NULL, "%s answered with status %d instead of %d",
            request->client->address.name, answer->status, request->operation->statuses[0]);
    return outcome_completed(request);
}
