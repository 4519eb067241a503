#include "client/gemmctl/save.h"

#include <string.h>

#include "client/gemmctl/output.h"

/* Opens the file and copies the tensors into the file. */
static enum gemmd_error save_fill(const struct save_file *file, struct output *output,
                                  struct fault *fault)
{
    const struct tensor *tensor = file->tensor, *scale = file->scale;
    const enum gemmd_error code =
        scale != NULL ? output_open_scaled(output, file->path, scale, tensor, fault)
                      : output_open(output, file->path, file->format, file->name, tensor, fault);
    if (code != GEMMD_OK)
        return code;
    char *data = output_data(output);
    if (scale != NULL) {
        memcpy(data, scale->data, scale->bytes);
        data += scale->bytes;
    }
    memcpy(data, tensor->data, tensor->bytes);
    return GEMMD_OK;
}

enum gemmd_error save(const struct save_file files[], uint32_t count, struct fault *fault)
{
    struct output outputs[SAVE_FILES_MAX];
    enum gemmd_error code = GEMMD_OK;
    uint32_t opened = 0;
    for (; opened < count && code == GEMMD_OK; opened++)
        code = save_fill(&files[opened], &outputs[opened], fault);
    for (uint32_t i = 0; i < count && code == GEMMD_OK; i++)
        code = output_commit(&outputs[i], fault);
    while (opened > 0)
        output_close(&outputs[--opened]);
    return code;
}
