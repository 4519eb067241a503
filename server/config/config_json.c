/* config_json.c - writes the options in force as a JSON object. */
#include <string.h>

#include "server/config/config_option.h"

static json_t *value_to_json(const struct config *config, const struct config_option *option)
{
    const unsigned char *field = (const unsigned char *)config + option->offset;
    switch (option->kind) {
    case CONFIG_KIND_SWITCH:
        return json_boolean(config_value_load(config, option));
    case CONFIG_KIND_SHARE:
        return json_real((double)config_value_load(config, option) / CONFIG_SHARE_ONE);
    case CONFIG_KIND_MODE: {
        char octal[32];
        config_value_write(option, config_value_load(config, option), octal);
        return json_string(octal);
    }
    case CONFIG_KIND_CHOICE:
        return json_string(option->choices[config_value_load(config, option)]);
    case CONFIG_KIND_TEXT: {
        const char *text = *(char *const *)(const void *)field;
        return text ? json_string(text) : json_null();
    }
    case CONFIG_KIND_ADDRESSES: {
        json_t *list = json_array();
        for (uint32_t i = 0; list && i < config->listen_count; i++) {
            if (json_array_append_new(list, json_string(config->listen[i])) != 0) {
                json_decref(list);
                return NULL;
            }
        }
        return list;
    }
    default:
        return json_integer((json_int_t)config_value_load(config, option));
    }
}

/* Whether an option has no value of its own: a limit of a tenant that --tenant-share decides, or
 * --tls-client-auth without --tls-client-ca, or --forwarded-header without --trusted-proxy. The
 * option is then null, which a --config file may have for an option that is not given. */
static bool is_absent(const struct config *config, const struct config_option *option)
{
    return (config->shares_requests && strcmp(option->name, "tenant-requests") == 0) ||
           (config->shares_bytes && strcmp(option->name, "tenant-bytes") == 0) ||
           (config->shares_tensors && strcmp(option->name, "tenant-tensor-bytes") == 0) ||
           (config->tls_client_ca == NULL && strcmp(option->name, "tls-client-auth") == 0) ||
           (config->trusted_proxies == NULL && strcmp(option->name, "forwarded-header") == 0);
}

static json_t *to_json(const struct config *config, bool with_private)
{
    json_t *object = json_object();
    for (uint32_t i = 0; object && i < config_option_count; i++) {
        const struct config_option *option = &config_options[i];
        if (!(option->sources & CONFIG_SOURCE_FILE) || (option->private && !with_private))
            continue;
        json_t *value =
            with_private && is_absent(config, option) ? json_null() : value_to_json(config, option);
        if (json_object_set_new(object, option->name, value) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

json_t *config_to_json(const struct config *config)
{
    return to_json(config, true);
}

json_t *config_limits_to_json(const struct config *config)
{
    return to_json(config, false);
}
