/*
 * model_json.h - describes models in the JSON of the Open Inference Protocol. A
 * function that returns JSON returns a new reference that the caller owns, or NULL if memory ran
 * out. Any thread.
 */
#ifndef SERVER_API_V2_MODEL_JSON_H
#define SERVER_API_V2_MODEL_JSON_H

#include <jansson.h>

#include "proto/json_text.h"
#include "server/api/v2/infer_model.h"

json_t *model_metadata_json(const struct model *model);
json_t *model_config_json(const struct model *model);
/* Writes one entry of the list "model_stats", at most MODEL_LIST_ENTRY_MAX bytes (model_list.h). */
void model_stats_json(struct json_text *json, const struct model *model);

#endif
