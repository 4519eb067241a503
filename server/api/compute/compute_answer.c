#include "server/api/compute/compute_answer.h"

#include <stdio.h>
#include <string.h>

#include "proto/dtype.h"
#include "proto/number.h"

/* Writes a Server-Timing header (W3C): "recv;dur=0.041, queue;dur=...", in milliseconds. */
static void write_timing(const struct work *work, const struct compute_times *times, char *out)
{
    const struct {
        const char *name;
        uint64_t ns;
    } stages[] = {
        {"recv;dur=", times->received_ns - times->started_ns},
        {", queue;dur=", work->started_ns - work->queued_ns},
        {", h2d;dur=", work->h2d_ns},
        {", kernel;dur=", work->kernel_ns},
        {", d2h;dur=", work->d2h_ns},
        {", total;dur=", times->answered_ns - times->started_ns},
    };
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++)
        out = decimal_milliseconds(stpcpy(out, stages[i].name), stages[i].ns);
    *out = '\0';
}

void compute_answer_headers(const struct compute_call *call, const struct compute_times *times,
                            struct headers *headers)
{
    char text[256];

    if (call->residents.stored != NULL) {
        snprintf(text, sizeof text, "/tensors/%s", resident_name(call->residents.stored));
        headers_add(headers, "Content-Type", "application/json");
        headers_add(headers, "Location", text);
    } else {
        headers_add(headers, "Content-Type", format_media_type(call->answer_format));
    }
    compute_answer_product_headers(call, times, headers);
}

void compute_answer_product_headers(const struct compute_call *call,
                                    const struct compute_times *times, struct headers *headers)
{
    const struct work *work = &call->work;
    char text[256];

    tensor_shape_text(&call->c, text, sizeof text);
    headers_add(headers, "Gemmd-Shape", text);
    headers_add(headers, "Gemmd-Dtype", dtype_name(call->c.dtype));
    headers_add(headers, "Gemmd-Kernel", work_kernel_name(work));
    *decimal_u64(text, work->launch_works) = '\0';
    headers_add(headers, "Gemmd-Batch", text);
    if (call->devices > 1) {
        *decimal_u64(text, call->devices) = '\0';
        headers_add(headers, "Gemmd-Devices", text);
    }
    write_timing(work, times, text);
    headers_add(headers, "Server-Timing", text);
    if (work->verify == WORK_VERIFY_ASKED) {
        snprintf(text, sizeof text, "pass; residual=%.3g", work->residual);
        headers_add(headers, "Gemmd-Verify", text);
    }
}

enum gemmd_dtype compute_call_describe(const struct compute_call *call,
                                       const struct call_operation *operation, bool work_ended,
                                       struct log_access *entry)
{
    const struct work *work = &call->work;
    entry->kernel = work_kernel_name(work);
    if (work_ended) {
        entry->shared = work->launch_works;
        entry->queued_ns = work->queued_ns;
        entry->device_ns = work->started_ns;
        if (work->started_ns > work->queued_ns)
            entry->queue_ns = work->started_ns - work->queued_ns;
        entry->h2d_ns = work->h2d_ns;
        entry->kernel_ns = work->kernel_ns;
        entry->d2h_ns = work->d2h_ns;
    }
    if (call->operation != NULL)
        operation = call->operation;
    return operation->describe(&call->request, entry);
}
