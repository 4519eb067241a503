/* What a server answers, to the client: header lines and problem documents. Whatever comes, texts
 * end and an error is no success. */
#include <string.h>

#include "client/answer.h"
#include "client/failure.h"
#include "fuzz.h"

static void check_text(const char *text, size_t room)
{
    MUST(memchr(text, '\0', room) != NULL);
}

/* Takes the head line by line, as libcurl hands it over; returns where the payload starts. */
static size_t read_head(struct answer *answer, const char *text, size_t length)
{
    size_t at = 0;
    answer_init(answer);
    while (at < length && !answer->complete) {
        const char *end = memchr(text + at, '\n', length - at);
        size_t line = end != NULL ? (size_t)(end - (text + at)) + 1 : length - at;
        answer_line(answer, text + at, line);
        at += line;
    }
    return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    const char *text = (const char *)bytes;
    struct answer answer;
    struct gemmd_error_info error;
    size_t payload = read_head(&answer, text, length);
    MUST(answer.rank <= ANSWER_MAX_RANK);
    MUST(answer.status >= 0 && answer.status <= 999);
    MUST(!answer.complete || answer.status >= 200);
    MUST(!answer.has_dtype || (unsigned)answer.dtype < GEMMD_DTYPE_COUNT);
    MUST(!(answer.verify_pass && answer.verify_fail));
    check_text(answer.kernel, sizeof answer.kernel);
    check_text(answer.request_id, sizeof answer.request_id);
    check_text(answer.etag, sizeof answer.etag);
    check_text(answer.job, sizeof answer.job);

    int status = answer.status >= 400 ? answer.status : 500;
    enum gemmd_error code = failure_from_answer(&error, status, text + payload, length - payload);
    MUST(code != GEMMD_OK && (unsigned)code < GEMMD_ERR_COUNT);
    MUST(error.code == code && error.http_status == status);
    check_text(error.message, sizeof error.message);
    check_text(error.field, sizeof error.field);
    return 0;
}
