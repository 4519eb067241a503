/*
 * openapi.h - openapi.json with the version of this build filled in: the body of the answer to
 * GET /openapi.json. Static storage, read-only, any thread.
 */
#ifndef PROTO_OPENAPI_H
#define PROTO_OPENAPI_H

#include <stddef.h>

extern const char openapi_json[]; /* NUL-terminated */
extern const size_t openapi_json_length;

#endif
