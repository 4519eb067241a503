/*
 * model_list.h - lists of all models of the request's tenant in JSON, as long as --max-json at
 * most, or 64 KiB if that is more. Each resident matrix is a model, so that a tenant can have
 * hundreds of thousands of them, and an I/O thread serves nothing else while it writes their list.
 * All functions run on the request's I/O thread.
 */
#ifndef SERVER_API_V2_MODEL_LIST_H
#define SERVER_API_V2_MODEL_LIST_H

#include "proto/json_text.h"
#include "server/api/v2/infer_model.h"

struct request;

/* The longest entry in bytes. */
enum { MODEL_LIST_ENTRY_MAX = 2048 };

/* Writes the entry of a model. */
typedef void (*model_list_write)(struct json_text *json, const struct request *request,
                                 const struct model *model);

/* Returns the text `head`, the entries of all models with commas between them, and `tail`. The
 * caller frees the text. Returns NULL and sets request->fault if the text would be longer than the
 * limit, or if memory ran out. */
char *model_list_text(struct request *request, const char *head, model_list_write write,
                      const char *tail);

#endif
