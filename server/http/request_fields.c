/* The functions of request.h that read a request's headers and its query. */
#include <string.h>
#include <strings.h>

#include "server/http/io_thread.h"
#include "server/http/request.h"

const char *request_header(const struct request *request, const char *name)
{
    return MHD_lookup_connection_value(request->mhd, MHD_HEADER_KIND, name);
}

static enum MHD_Result read_preference(void *cls, enum MHD_ValueKind kind, const char *name,
                                       const char *value)
{
    (void)kind;
    if (strcasecmp(name, "Prefer") == 0 && value != NULL)
        prefer_read(cls, value);
    return MHD_YES;
}

struct preferences request_preferences(const struct request *request)
{
    struct preferences preferences = {.respond_async = false};
    if (request_header(request, "Prefer") == NULL)
        return preferences;
    MHD_get_connection_values(request->mhd, MHD_HEADER_KIND, read_preference, &preferences);
    return preferences;
}

void request_choose_id(struct request *request)
{
    request_id_choose(request->id, request_header(request, "X-Request-Id"),
                      &request->thread->id_state);
}

/* The arguments of request_parameters, for the callback of libmicrohttpd. */
struct parameter_visit {
    struct request *request;
    request_parameter *take;
    void *context;
};

static enum MHD_Result show_parameter(void *cls, enum MHD_ValueKind kind, const char *name,
                                      size_t name_size, const char *value, size_t value_size)
{
    const struct parameter_visit *visit = cls;
    (void)kind;
    if (strlen(name) != name_size || (value != NULL && strlen(value) != value_size)) {
        fault_set(&visit->request->fault, GEMMD_ERR_MALFORMED, NULL,
                  "a parameter contains a zero byte");
        return MHD_NO;
    }
    return visit->take(visit->context, name, value == NULL ? "" : value) ? MHD_YES : MHD_NO;
}

enum gemmd_error request_parameters(struct request *request, request_parameter *take, void *context)
{
    struct parameter_visit visit = {request, take, context};
    MHD_get_connection_values_n(request->mhd, MHD_GET_ARGUMENT_KIND, show_parameter, &visit);
    return request->fault.code;
}
