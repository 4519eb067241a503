#include "server/api/counted_text.h"

#include <stdlib.h>
#include <string.h>

#include "server/api/services.h"
#include "server/http/respond.h"

/* A text that is being sent, and its reservation. */
struct counted_text {
    char *text;
    struct reservation reservation;
};

static void counted_text_end(void *context)
{
    struct counted_text *counted = context;
    admission_give(&counted->reservation);
    free(counted->text);
    free(counted);
}

void respond_counted_text(struct request *request, const struct headers *headers, char *text)
{
    const uint64_t bytes = text != NULL ? strlen(text) : 0;
    const uint32_t tenant = request->tenant_number;
    struct admission *admission = services_of(request)->admission;
    struct counted_text *counted = text != NULL ? malloc(sizeof *counted) : NULL;
    if (counted == NULL) {
        free(text);
        respond_out_of_memory(request);
        return;
    }
    *counted = (struct counted_text){.text = text};
    if (bytes >= ADMISSION_SENT_AT_ONCE_BYTES &&
        admission_take(admission, tenant, bytes, &counted->reservation, &request->fault) !=
            GEMMD_OK) {
        request->retry_after_s = services_retry_after_s(request, request->fault.code, bytes);
        counted_text_end(counted);
        respond_fault(request, &request->fault);
        return;
    }
    struct headers json;
    headers_clear(&json);
    headers_add(&json, "Content-Type", "application/json");
    const struct payload payload = {
        .parts = {{text, (size_t)bytes}}, .count = 1, .sent = counted_text_end, .context = counted};
    respond(request, 200, headers != NULL ? headers : &json, &payload);
}
