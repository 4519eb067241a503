#include "client/gemmctl/save.h"

#include <string.h>

#include "client/gemmctl/output.h"

enum gemmd_error save(const char *path, enum format format, const char *tensor_name,
                      const struct tensor *result, struct fault *fault)
{
    struct output output;
    enum gemmd_error code = output_open(&output, path, format, tensor_name, result, fault);
    if (code == GEMMD_OK) {
        memcpy(output_data(&output), result->data, result->bytes);
        code = output_commit(&output, fault);
    }
    output_close(&output);
    return code;
}
