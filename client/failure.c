#include "client/failure.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void failure_clear(struct gemmd_error_info *error)
{
    if (error != NULL)
        *error = (struct gemmd_error_info){.code = GEMMD_OK};
}

static void set_text(struct gemmd_error_info *error, enum gemmd_error code, int status,
                     const char *field, const char *message)
{
    if (error == NULL)
        return;
    failure_clear(error);
    error->code = code;
    error->http_status = status;
    error->retriable = error_retriable(code);
    snprintf(error->field, sizeof error->field, "%s", field != NULL ? field : "");
    snprintf(error->message, sizeof error->message, "%s", message);
}

enum gemmd_error failure_set(struct gemmd_error_info *error, enum gemmd_error code,
                             const char *field, const char *format, ...)
{
    char message[sizeof error->message];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    set_text(error, code, 0, field, message);
    return code;
}

enum gemmd_error failure_from_fault(struct gemmd_error_info *error, const struct fault *fault)
{
    const bool is_unsupported = fault->code == GEMMD_ERR_UNSUPPORTED;
    return failure_set(error, is_unsupported ? GEMMD_ERR_UNSUPPORTED : GEMMD_ERR_USAGE,
                       fault->field, "%s", fault->detail);
}

static enum gemmd_error code_of_status(int status)
{
    if (status == 502 || status == 503)
        return GEMMD_ERR_CONNECTION;
    for (int code = GEMMD_ERR_OK + 1; code < GEMMD_ERR_COUNT; code++)
        if (error_status((enum gemmd_error)code) == status)
            return (enum gemmd_error)code;
    return status < 500 ? GEMMD_ERR_MALFORMED : GEMMD_ERR_INTERNAL;
}

/* Returns the last part of `type`, the URI or URN of a problem document. */
static const char *slug_of(const char *type)
{
    const char *slug = type;
    for (const char *at = type; *at != '\0'; at++)
        if (*at == '/' || *at == ':' || *at == '#')
            slug = at + 1;
    return slug;
}

/* The text of a member of a problem document; NULL: there is none, or an empty one. */
static const char *text_of(const json_t *problem, const char *name)
{
    const char *text = json_string_value(json_object_get(problem, name));
    return text != NULL && text[0] != '\0' ? text : NULL;
}

enum gemmd_error failure_from_answer(struct gemmd_error_info *error, int status, const char *body,
                                     size_t bytes)
{
    enum gemmd_error code = code_of_status(status);
    json_t *problem = json_loadb(body, bytes, JSON_REJECT_DUPLICATES, NULL);
    const char *type = text_of(problem, "type");
    const char *detail = text_of(problem, "detail");
    const char *field = json_string_value(json_object_get(problem, "field"));
    if (type != NULL) {
        enum gemmd_error named = error_from_slug(slug_of(type));
        /* For a slug that this library does not know, the code of the HTTP status stays. */
        if (named != GEMMD_ERR_PROTOCOL && named != GEMMD_OK)
            code = named;
    }
    if (detail == NULL)
        detail = text_of(problem, "title");
    if (detail != NULL) {
        set_text(error, code, status, field, detail);
    } else {
        failure_set(error, code, field,
                    "the daemon answered with HTTP status %d and no explanation", status);
        if (error != NULL)
            error->http_status = status;
    }
    json_decref(problem);
    return code;
}
