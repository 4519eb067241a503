/*
 * oip_datatype.h - what the Open Inference Protocol calls the types of matrices. Pure functions.
 *
 * The protocol has no name for 8-bit floats: f8_e4m3 travels as UINT8, byte for byte. Some clients
 * have no type for BF16, or convert it element by element: they may call it UINT16.
 */
#ifndef PROTO_OIP_DATATYPE_H
#define PROTO_OIP_DATATYPE_H

#include <gemmd/dtypes.h>
#include <stdbool.h>

/* "FP32"; static. */
const char *oip_datatype(enum gemmd_dtype dtype);
/* Whether a request may call the type so. */
bool oip_datatype_names(const char *name, enum gemmd_dtype dtype);
/* As a model's configuration says it: "TYPE_FP32"; static. */
const char *oip_config_datatype(enum gemmd_dtype dtype);
/* Whether the protocol lets its values be sent as JSON numbers: not those of 16 bits. */
bool oip_datatype_has_json(enum gemmd_dtype dtype);

#endif
