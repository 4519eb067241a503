#include "proto/oip_datatype.h"

#include <string.h>

static const struct {
    const char *name, *config_name;
    bool has_json;
} entries[GEMMD_DTYPE_COUNT] = {
#define ENTRY(name, has_json)                                                                      \
    {                                                                                              \
        name, "TYPE_" name, has_json                                                               \
    }
    [GEMMD_F64] = ENTRY("FP64", true),      [GEMMD_F32] = ENTRY("FP32", true),
    [GEMMD_F16] = ENTRY("FP16", false),     [GEMMD_BF16] = ENTRY("BF16", false),
    [GEMMD_F8_E4M3] = ENTRY("UINT8", true), [GEMMD_I8] = ENTRY("INT8", true),
    [GEMMD_I32] = ENTRY("INT32", true),
#undef ENTRY
};

const char *oip_datatype(enum gemmd_dtype dtype)
{
    return entries[dtype].name;
}

bool oip_datatype_names(const char *name, enum gemmd_dtype dtype)
{
    return strcmp(name, entries[dtype].name) == 0 ||
           (dtype == GEMMD_BF16 && strcmp(name, "UINT16") == 0);
}

const char *oip_config_datatype(enum gemmd_dtype dtype)
{
    return entries[dtype].config_name;
}

bool oip_datatype_has_json(enum gemmd_dtype dtype)
{
    return entries[dtype].has_json;
}
