/*
 * openapi.h - openapi.yaml's bytes, built in. The file is YAML in JSON's syntax, so they are what
 * GET /openapi.json answers. Static storage, read-only, any thread.
 */
#ifndef PROTO_OPENAPI_H
#define PROTO_OPENAPI_H

#include <stddef.h>

extern const char openapi_json[]; /* NUL-terminated */
extern const size_t openapi_json_length;

#endif
