/*
 * model_json.h - models as the Open Inference Protocol describes them. Each returns a new reference
 * that the caller owns, or NULL if memory ran out.
 */
#ifndef SERVER_API_V2_MODEL_JSON_H
#define SERVER_API_V2_MODEL_JSON_H

#include <jansson.h>

#include "server/api/v2/model.h"

json_t *model_metadata_json(const struct model *model);
json_t *model_config_json(const struct model *model);
/* One entry of "model_stats". */
json_t *model_stats_json(const struct model *model);

#endif
