/*
 * oip_datatype.h - the names of element types in the Open Inference Protocol. Pure functions, any
 * thread.
 *
 * The protocol has no name for 8-bit floats. A tensor of type f8_e4m3 is therefore sent as UINT8,
 * and its bytes are not converted. Some clients have no type BF16, or convert BF16 element by
 * element. A request may therefore send a tensor of type bf16 as UINT16.
 */
#ifndef PROTO_OIP_DATATYPE_H
#define PROTO_OIP_DATATYPE_H

#include <gemmd/dtypes.h>
#include <stdbool.h>

/* Returns the protocol's name of the type ("FP32"). The string is static. */
const char *oip_datatype(enum gemmd_dtype dtype);
/* Returns whether `name` is a name that a request may use for the type. */
bool oip_datatype_names(const char *name, enum gemmd_dtype dtype);
/* Returns the name of the type in a model's configuration ("TYPE_FP32"). The string is static. */
const char *oip_config_datatype(enum gemmd_dtype dtype);
/* Returns whether the protocol allows elements of the type to be sent as JSON numbers. The protocol
 * does not allow JSON for the types of 16 bits. */
bool oip_datatype_has_json(enum gemmd_dtype dtype);

#endif
