#include "client/gemmctl/save.h"

#include <string.h>

#include "client/gemmctl/output.h"

enum gemmd_error save(const struct save_file files[], uint32_t count, struct fault *fault)
{
    struct output outputs[SAVE_FILES_MAX];
    enum gemmd_error code = GEMMD_OK;
    uint32_t opened = 0;
    for (; opened < count && code == GEMMD_OK; opened++) {
        const struct save_file *file = &files[opened];
        code = output_open(&outputs[opened], file->path, file->format, file->name, file->tensor,
                           fault);
        if (code == GEMMD_OK)
            memcpy(output_data(&outputs[opened]), file->tensor->data, file->tensor->bytes);
    }
    for (uint32_t i = 0; i < count && code == GEMMD_OK; i++)
        code = output_commit(&outputs[i], fault);
    while (opened > 0)
        output_close(&outputs[--opened]);
    return code;
}
