#include "proto/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "proto/json_text.h"

struct error_entry {
    const char *name, *slug, *title;
    int status;
    bool retriable;
};

static const struct error_entry entries[GEMMD_ERR_COUNT] = {
#define X(name, slug, status, retriable, title) {#name, slug, title, status, retriable},
    GEMMD_ERROR_MAP(X)
#undef X
};

/* A code that is not in the list is a bug of the program, and is reported as an internal error. */
static const struct error_entry *entry_of(enum gemmd_error code)
{
    return &entries[(unsigned)code < GEMMD_ERR_COUNT ? code : GEMMD_ERR_INTERNAL];
}

const char *error_name(enum gemmd_error code)
{
    return entry_of(code)->name;
}

const char *error_slug(enum gemmd_error code)
{
    return entry_of(code)->slug;
}

const char *error_title(enum gemmd_error code)
{
    return entry_of(code)->title;
}

int error_status(enum gemmd_error code)
{
    return entry_of(code)->status;
}

bool error_retriable(enum gemmd_error code)
{
    return entry_of(code)->retriable;
}

enum gemmd_error error_from_slug(const char *slug)
{
    for (unsigned code = 0; code < GEMMD_ERR_COUNT; code++)
        if (strcmp(entries[code].slug, slug) == 0)
            return (enum gemmd_error)code;
    return GEMMD_ERR_PROTOCOL;
}

enum gemmd_error fault_set(struct fault *fault, enum gemmd_error code, const char *field,
                           const char *format, ...)
{
    if (fault == NULL)
        return code;
    fault->code = code;
    snprintf(fault->field, sizeof fault->field, "%s", field != NULL ? field : "");
    va_list arguments;
    va_start(arguments, format);
    if (vsnprintf(fault->detail, sizeof fault->detail, format, arguments) < 0)
        fault->detail[0] = '\0';
    va_end(arguments);
    return code;
}

uint64_t fault_to_json(const struct fault *fault, const char *request_id, char *out,
                       uint64_t capacity)
{
    struct json_text json;
    json_text_start(&json, out, capacity);
    json_text_raw(&json, "{\"type\":\"urn:gemmd:error:");
    json_text_raw(&json, error_slug(fault->code));
    json_text_raw(&json, "\",\"title\":");
    json_text_string(&json, error_title(fault->code));
    json_text_raw(&json, ",\"status\":");
    json_text_u64(&json, (uint64_t)error_status(fault->code));
    json_text_raw(&json, ",\"detail\":");
    json_text_string(&json, fault->detail);
    if (fault->field[0] != '\0') {
        json_text_raw(&json, ",\"field\":");
        json_text_string(&json, fault->field);
    }
    if (request_id != NULL && request_id[0] != '\0') {
        json_text_raw(&json, ",\"request_id\":");
        json_text_string(&json, request_id);
    }
    json_text_raw(&json, ",\"error\":");
    json_text_string(&json, fault->detail);
    json_text_raw(&json, "}\n");
    return json_text_end(&json);
}
