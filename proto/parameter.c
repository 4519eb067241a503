#include "proto/parameter.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "proto/gemm_request.h"
#include "proto/nearest.h"
#include "proto/number.h"

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

bool parameter_read_dim(const char *value, void *out)
{
    uint64_t number;
    if (!number_u64(value, &number) || number < 1 || number > GEMM_DIM_MAX)
        return false;
    *(uint64_t *)out = number;
    return true;
}

bool parameter_read_priority(const char *value, void *out)
{
    uint64_t number;
    if (!number_u64(value, &number) || number > GEMM_PRIORITY_MAX)
        return false;
    *(uint32_t *)out = (uint32_t)number;
    return true;
}

bool parameter_read_number(const char *value, void *out)
{
    return number_f64(value, out);
}

bool parameter_read_flag(const char *value, void *out)
{
    return number_flag(value, out);
}

/* read_choice stores the index of a choice in a field of any enum type, which has to be as large as
 * a uint32_t. */
enum choice { CHOICE_FIRST };
_Static_assert(sizeof(enum choice) == sizeof(uint32_t), "an enum is an integer of 32 bits");

static bool read_choice(const char *value, const char *const *choices, void *out)
{
    for (uint32_t i = 0; choices[i] != NULL; i++) {
        if (strcmp(choices[i], value) == 0) {
            memcpy(out, &i, sizeof i);
            return true;
        }
    }
    return false;
}

/* Copies a name of 1 to `max` characters to `out`. False if the name has a character that is not in
 * `set`. */
static bool read_name(const char *value, const char *set, size_t max, char *out)
{
    size_t length = strlen(value);
    if (length < 1 || length > max || strspn(value, set) != length)
        return false;
    memcpy(out, value, length + 1);
    return true;
}

bool parameter_read_tensor(const char *value, void *out)
{
    return read_name(value, LOWER UPPER DIGITS "._-", GEMM_TENSOR_NAME_MAX, out);
}

bool parameter_read_kernel(const char *value, void *out)
{
    return read_name(value, LOWER DIGITS "_", GEMM_KERNEL_NAME_MAX, out);
}

/* Returns the index of the parameter of that name, or table->count if the table has no parameter of
 * that name. */
static uint32_t find_parameter(const struct parameter_table *table, const char *name)
{
    uint32_t index = 0;
    while (index < table->count && strcmp(table->entries[index].name, name) != 0)
        index++;
    return index;
}

static uint32_t given_bit(const struct parameter_table *table, const char *name)
{
    uint32_t index = find_parameter(table, name);
    return index < table->count ? 1u << index : 0;
}

bool parameter_given(const struct parameter_table *table, const void *request, const char *name)
{
    const uint32_t *given =
        (const uint32_t *)(const void *)((const char *)request + table->given_offset);
    return (*given & given_bit(table, name)) != 0;
}

void parameter_mark_given(const struct parameter_table *table, void *request, const char *name)
{
    *(uint32_t *)(void *)((char *)request + table->given_offset) |= given_bit(table, name);
}

/* Writes the names of the parameters, with "..." in place of those that do not fit. The first name
 * and "..." fit in any case. */
static void list_names(const struct parameter_table *table, char *text, size_t capacity)
{
    static const char more[] = ", ...";
    size_t length = 0;
    for (uint32_t i = 0; i < table->count; i++) {
        const char *name = table->entries[i].name, *comma = i > 0 ? ", " : "";
        const size_t after = i + 1 < table->count ? sizeof more : 1;
        if (length + strlen(comma) + strlen(name) + after > capacity)
            name = "...";
        length += (size_t)snprintf(text + length, capacity - length, "%s%s", comma, name);
        if (name[0] == '.')
            return;
    }
}

static bool read_value(const struct parameter *parameter, const char *value, void *out)
{
    return parameter->read != NULL ? parameter->read(value, out)
                                   : read_choice(value, parameter->choices, out);
}

const char *parameter_suggest_flag(const char *value)
{
    static const char *const yes[] = {"true", "yes", "on", "t", "y", NULL}, *const no[] = {
                                                                                "false", "no",
                                                                                "off",   "f",
                                                                                "n",     NULL};
    for (uint32_t i = 0; yes[i] != NULL; i++) {
        if (strcasecmp(value, yes[i]) == 0)
            return "1";
        if (strcasecmp(value, no[i]) == 0)
            return "0";
    }
    return NULL;
}

const char *parameter_hint(const char *suggestion, char out[PARAMETER_HINT_BYTES])
{
    out[0] = '\0';
    if (suggestion != NULL)
        snprintf(out, PARAMETER_HINT_BYTES, "; did you mean %s?", suggestion);
    return out;
}

static const char *nearest_choice(const char *const *choices, const char *value)
{
    struct nearest search;
    nearest_start(&search, value, strlen(value));
    for (uint32_t i = 0; choices[i] != NULL; i++)
        nearest_offer(&search, choices[i]);
    return search.best;
}

/* Returns the allowed value that a client may have meant, or NULL. */
static const char *suggest_value(const struct parameter *parameter, const char *value)
{
    uint64_t scratch; /* parameters with suggestions are numbers, flags and enums */
    if (parameter->choices != NULL)
        return nearest_choice(parameter->choices, value);
    const char *suggestion = parameter->suggest != NULL ? parameter->suggest(value) : NULL;
    return suggestion != NULL && parameter->read(suggestion, &scratch) ? suggestion : NULL;
}

static const char *nearest_name(const struct parameter_table *table, const char *name)
{
    struct nearest search;
    nearest_start(&search, name, strlen(name));
    for (uint32_t i = 0; i < table->count; i++)
        nearest_offer(&search, table->entries[i].name);
    return search.best;
}

enum gemmd_error parameter_set(const struct parameter_table *table, void *request, const char *name,
                               const char *value, struct fault *fault)
{
    uint32_t *given = (uint32_t *)(void *)((char *)request + table->given_offset);
    const uint32_t index = find_parameter(table, name);
    if (index == table->count) {
        static const char sentence[] = "there is no parameter '%.32s'; those of %s are %s%s";
        char names[sizeof fault->detail], hint[PARAMETER_HINT_BYTES];
        parameter_hint(nearest_name(table, name), hint);
        const int others = snprintf(NULL, 0, sentence, name, table->path, "", hint);
        list_names(table, names, sizeof names - (size_t)others);
        return fault_set(fault, GEMMD_ERR_MALFORMED, name, sentence, name, table->path, names,
                         hint);
    }
    const struct parameter *parameter = &table->entries[index];
    if ((*given & 1u << index) != 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, name, "%s is given twice", name);
    if (value == NULL || !read_value(parameter, value, (char *)request + parameter->offset)) {
        char hint[PARAMETER_HINT_BYTES];
        const char *suggestion = value != NULL ? suggest_value(parameter, value) : NULL;
        return fault_set(fault, GEMMD_ERR_MALFORMED, name, "%s is '%.64s'; it must be %s%s", name,
                         value != NULL ? value : "", parameter->allowed,
                         parameter_hint(suggestion, hint));
    }
    *given |= 1u << index;
    return GEMMD_OK;
}
