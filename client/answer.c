#include "client/answer.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "proto/base64.h"
#include "proto/dtype.h"
#include "proto/number.h"
#include "proto/tensor.h"

static const struct gemmd_timing timing_unknown = {-1, -1, -1, -1, -1, -1};

void answer_init(struct answer *answer)
{
    *answer = (struct answer){.timing = timing_unknown};
}

/* Copies `value` to `out` if the whole text fits. A text that was cut off would look complete. */
static void take_text(const char *value, char *out, size_t room)
{
    if (strlen(value) < room)
        memcpy(out, value, strlen(value) + 1);
}

static void take_length(struct answer *answer, const char *value)
{
    answer->has_length = number_u64(value, &answer->length);
}

static void take_encoding(struct answer *answer, const char *value)
{
    answer->encoded = strcasecmp(value, "identity") != 0;
}

static void take_type(struct answer *answer, const char *value)
{
    enum format format;
    answer->tensors = format_from_media_type(value, &format) && format == FORMAT_SAFETENSORS;
}

static void take_dtype(struct answer *answer, const char *value)
{
    answer->dtype = GEMMD_DTYPE_COUNT;
    answer->has_dtype = dtype_from_name(value, &answer->dtype);
    if (strspn(value, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(value))
        snprintf(answer->type, sizeof answer->type, "%s", value);
}

/* `value` is, for example, "64,128". */
static void take_shape(struct answer *answer, const char *value)
{
    char dim[24];
    uint32_t rank = 0;
    while (rank < ANSWER_MAX_RANK) {
        size_t digits = strcspn(value, ",");
        if (digits >= sizeof dim)
            return;
        memcpy(dim, value, digits);
        dim[digits] = '\0';
        if (!number_u64(dim, &answer->dims[rank]))
            return;
        rank++;
        if (value[digits] == '\0') {
            answer->rank = rank;
            return;
        }
        value += digits + 1;
    }
}

static void take_kernel(struct answer *answer, const char *value)
{
    take_text(value, answer->kernel, sizeof answer->kernel);
}

static void take_batch(struct answer *answer, const char *value)
{
    uint64_t batch;
    if (number_u64(value, &batch) && batch <= UINT32_MAX)
        answer->batch = (uint32_t)batch;
}

static void take_request_id(struct answer *answer, const char *value)
{
    take_text(value, answer->request_id, sizeof answer->request_id);
}

static const char *skip_space(const char *text)
{
    return text + strspn(text, " \t");
}

/* Reads the number after `name` and "=" among the ";"-separated parameters of `value`. False if no
 * parameter has that name, or the parameter is not a number. */
static bool parameter_value(const char *value, const char *name, double *out)
{
    size_t name_length = strlen(name);
    for (const char *at = strchr(value, ';'); at != NULL; at = strchr(at, ';')) {
        at = skip_space(at + 1);
        if (strncasecmp(at, name, name_length) != 0 || at[name_length] != '=')
            continue;
        char number[40];
        const char *text = at + name_length + 1;
        size_t length = strcspn(text, "; \t");
        if (length >= sizeof number)
            return false;
        memcpy(number, text, length);
        number[length] = '\0';
        return number_f64(number, out);
    }
    return false;
}

/* `value` is, for example, "recv;dur=0.021, queue;dur=0.004". */
static void take_timing(struct answer *answer, const char *value)
{
    const struct {
        const char *name;
        double *value;
    } stages[] = {
        {"recv", &answer->timing.recv}, {"queue", &answer->timing.queue},
        {"h2d", &answer->timing.h2d},   {"kernel", &answer->timing.kernel},
        {"d2h", &answer->timing.d2h},   {"total", &answer->timing.total},
    };
    char metric[128];
    while (*value != '\0') {
        value = skip_space(value);
        size_t length = strcspn(value, ",");
        if (length < sizeof metric) {
            memcpy(metric, value, length);
            metric[length] = '\0';
            size_t name = strcspn(metric, "; \t");
            for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++)
                if (strlen(stages[i].name) == name && strncmp(metric, stages[i].name, name) == 0)
                    parameter_value(metric, "dur", stages[i].value);
        }
        value += length + (value[length] == ',');
    }
}

/* The daemon sends one algorithm, the one that was asked for. */
static void take_digest(struct answer *answer, const char *value)
{
    static const char name[] = "sha-256=:";
    const size_t length = strlen(value), name_length = sizeof name - 1;
    answer->has_digest = length > name_length && strncmp(value, name, name_length) == 0 &&
                         value[length - 1] == ':' &&
                         base64_read(value + name_length, length - name_length - 1, answer->digest,
                                     sizeof answer->digest);
}

/* `value` is, for example, "pass; residual=0.12". */
static void take_verify(struct answer *answer, const char *value)
{
    size_t word = strcspn(value, "; \t");
    answer->verify_pass = word == 4 && strncasecmp(value, "pass", 4) == 0;
    answer->verify_fail = word == 4 && strncasecmp(value, "fail", 4) == 0;
    parameter_value(value, "residual", &answer->residual);
}

static void take_etag(struct answer *answer, const char *value)
{
    take_text(value, answer->etag, sizeof answer->etag);
}

/* `value` is "/jobs/ID", with or without a scheme, a host and a prefix. */
static void take_location(struct answer *answer, const char *value)
{
    const char *at = NULL;
    for (const char *next = strstr(value, "/jobs/"); next != NULL; next = strstr(at, "/jobs/"))
        at = next + strlen("/jobs/");
    if (at != NULL && strcspn(at, "/?#") == strlen(at))
        take_text(at, answer->job, sizeof answer->job);
}

static const struct {
    const char *name;
    void (*take)(struct answer *answer, const char *value);
} headers[] = {
    {"content-length", take_length},
    {"content-encoding", take_encoding},
    {"gemmd-dtype", take_dtype},
    {"gemmd-shape", take_shape},
    {"gemmd-kernel", take_kernel},
    {"gemmd-batch", take_batch},
    {"content-digest", take_digest},
    {"gemmd-verify", take_verify},
    {"server-timing", take_timing},
    {"x-request-id", take_request_id},
    {"etag", take_etag},
    {"location", take_location},
    {"content-type", take_type},
};

/* `line` is, for example, "HTTP/1.1 200 OK". */
static void take_status_line(struct answer *answer, const char *line)
{
    const char *space = strchr(line, ' ');
    char digits[4] = "";
    uint64_t status;
    answer_init(answer);
    if (space != NULL)
        snprintf(digits, sizeof digits, "%s", space + 1);
    if (number_u64(digits, &status))
        answer->status = (int)status;
}

void answer_line(struct answer *answer, const char *line, size_t length)
{
    char text[1024];
    while (length > 0 && strchr("\r\n \t", line[length - 1]) != NULL)
        length--;
    if (length == 0) {
        answer->complete = answer->status >= 200;
        return;
    }
    if (length >= sizeof text)
        return;
    memcpy(text, line, length);
    text[length] = '\0';
    if (strncmp(text, "HTTP/", 5) == 0) {
        take_status_line(answer, text);
        return;
    }
    char *colon = strchr(text, ':');
    if (colon == NULL)
        return;
    *colon = '\0';
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++)
        if (strcasecmp(text, headers[i].name) == 0)
            headers[i].take(answer, skip_space(colon + 1));
}
