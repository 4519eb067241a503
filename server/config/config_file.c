/* config_file.c - options from a JSON file. */
#include <inttypes.h>
#include <string.h>

#include "server/base/option_file.h"
#include "server/config/config_source.h"

/* Writes a JSON value as text, so that it is read like a flag's. Returns NULL for a value that no
 * option takes: an object, an array or null. */
static const char *value_text(const json_t *value, char number[32])
{
    switch (json_typeof(value)) {
    case JSON_STRING:
        return json_string_value(value);
    case JSON_INTEGER:
        snprintf(number, 32, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        return number;
    case JSON_REAL:
        snprintf(number, 32, "%.17g", json_real_value(value));
        return number;
    case JSON_TRUE:
        return "true";
    case JSON_FALSE:
        return "false";
    default:
        return NULL;
    }
}

static enum gemmd_error set_value(struct config_reader *reader, const struct config_option *option,
                                  const json_t *value)
{
    char number[32];
    const char *text = value_text(value, number);
    if (!text) {
        char expected[CONFIG_TEXT_MAX];
        config_value_expected(option, expected);
        return config_fault(reader, option, CONFIG_SOURCE_FILE, "must be %s", expected);
    }
    return config_set(reader, option, CONFIG_SOURCE_FILE, text);
}

/* Refuses a member that is not the name of an option, and suggests the nearest name. */
static enum gemmd_error refuse_unknown(const struct config_reader *reader, const char *key,
                                       size_t length)
{
    const char *file = reader->config->config_file;
    const char *nearest = config_option_nearest(key, length);
    if (nearest)
        return fault_set(reader->fault, GEMMD_ERR_USAGE, NULL,
                         "\"%.60s\" in %.80s is not an option; did you mean \"%s\"?", key, file,
                         nearest);
    return fault_set(reader->fault, GEMMD_ERR_USAGE, NULL, "\"%.60s\" in %.80s is not an option",
                     key, file);
}

static enum gemmd_error read_member(struct config_reader *reader, const char *key,
                                    const json_t *value)
{
    size_t length = strlen(key);
    const struct config_option *option = config_option_find(key, length);
    if (!option)
        return refuse_unknown(reader, key, length);
    if (!(option->sources & CONFIG_SOURCE_FILE))
        return fault_set(reader->fault, GEMMD_ERR_USAGE, NULL,
                         "\"%.60s\" in %.80s is an option that a --config file cannot set", key,
                         reader->config->config_file);
    if (json_is_null(value))
        return GEMMD_OK;
    if (option->kind != CONFIG_KIND_ADDRESSES || !json_is_array(value))
        return set_value(reader, option, value);
    size_t index;
    const json_t *element;
    json_array_foreach(value, index, element)
    {
        enum gemmd_error error = set_value(reader, option, element);
        if (error != GEMMD_OK)
            return error;
    }
    return GEMMD_OK;
}

enum gemmd_error config_read_file(struct config_reader *reader, const char *path)
{
    json_error_t problem;
    struct option_text text;
    const struct option_file file = {
        .option = "config", .path = path, .may_wait = !reader->while_serving};
    enum gemmd_error error = option_file_read(&file, &text, reader->fault);
    if (error != GEMMD_OK)
        return error;
    json_t *root = json_loadb(text.bytes, text.length, JSON_REJECT_DUPLICATES, &problem);
    option_text_free(&text);
    if (!root)
        return fault_set(reader->fault, GEMMD_ERR_USAGE, "config", "%.80s, line %d: %.120s", path,
                         problem.line, problem.text);
    if (!json_is_object(root))
        error = fault_set(reader->fault, GEMMD_ERR_USAGE, "config",
                          "%.80s must hold one JSON object, whose keys are names of options", path);
    const char *key;
    json_t *value;
    json_object_foreach(root, key, value)
    {
        if (error != GEMMD_OK)
            break;
        error = read_member(reader, key, value);
    }
    json_decref(root);
    return error;
}
