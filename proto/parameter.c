#include "proto/parameter.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "proto/dtype.h"
#include "proto/gemm_request.h"
#include "proto/nearest.h"
#include "proto/number.h"

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

static bool read_dim(const char *value, void *out)
{
    uint64_t number;
    if (!number_u64(value, &number) || number < 1 || number > GEMM_DIM_MAX)
        return false;
    *(uint64_t *)out = number;
    return true;
}

static bool read_priority(const char *value, void *out)
{
    uint64_t number;
    if (!number_u64(value, &number) || number > GEMM_PRIORITY_MAX)
        return false;
    *(uint32_t *)out = (uint32_t)number;
    return true;
}

static bool read_number(const char *value, void *out)
{
    return number_f64(value, out);
}

bool parameter_fits_f32(double number)
{
    return fabs(number) < 0x1.ffffffp127; /* from here on numbers are rounded to infinity */
}

static bool read_f32(const char *value, void *out)
{
    double number;
    if (!number_f64(value, &number) || !parameter_fits_f32(number))
        return false;
    *(double *)out = number;
    return true;
}

static bool read_flag(const char *value, void *out)
{
    return number_flag(value, out);
}

/* Suggests 1 for yes, true and the like, and 0 for no and false. */
static const char *suggest_flag(const char *value)
{
    static const char *const yes[] = {"true", "yes", "on", "t", "y"}, *const no[] = {"false", "no",
                                                                                     "off", "f",
                                                                                     "n"};
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++) {
        if (strcasecmp(value, yes[i]) == 0)
            return "1";
        if (strcasecmp(value, no[i]) == 0)
            return "0";
    }
    return NULL;
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

static bool read_tensor(const char *value, void *out)
{
    return read_name(value, LOWER UPPER DIGITS "._-", GEMM_TENSOR_NAME_MAX, out);
}

static bool read_kernel(const char *value, void *out)
{
    return read_name(value, LOWER DIGITS "_", GEMM_KERNEL_NAME_MAX, out);
}

static bool read_count(const char *value, void *out)
{
    uint64_t number;
    if (!number_u64(value, &number) || number > GEMM_DIM_MAX)
        return false;
    *(uint64_t *)out = number;
    return true;
}

const struct parameter_values parameter_count = {.read = read_count,
                                                 .allowed = "a whole number from 0 to 2147483647"};
const struct parameter_values parameter_dim = {.read = read_dim, .allowed = PARAMETER_DIM};
const struct parameter_values parameter_number = {.read = read_number,
                                                  .allowed = "a finite decimal such as -1.5e-3"};
const struct parameter_values parameter_f32 = {.read = read_f32, .allowed = PARAMETER_F32};
const struct parameter_values parameter_flag = {
    .read = read_flag, .allowed = "0 or 1", .suggest = suggest_flag};
const struct parameter_values parameter_tensor = {
    .read = read_tensor, .allowed = "1 to 128 of the characters A-Z a-z 0-9 . _ -"};
const struct parameter_values parameter_kernel = {.read = read_kernel,
                                                  .allowed = "auto or a kernel's name from /info"};
const struct parameter_values parameter_priority = {.read = read_priority,
                                                    .allowed = PARAMETER_PRIORITY};

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

bool parameter_takes_dtype(const struct parameter_values *values, enum gemmd_dtype dtype)
{
    return (values->dtypes & 1u << dtype) != 0;
}

static bool read_value(const struct parameter_values *values, const char *value, void *out)
{
    enum gemmd_dtype dtype;
    if (values->read != NULL)
        return values->read(value, out);
    if (values->choices != NULL)
        return read_choice(value, values->choices, out);
    if (!dtype_from_name(value, &dtype) || !parameter_takes_dtype(values, dtype))
        return false;
    *(enum gemmd_dtype *)out = dtype;
    return true;
}

/* Writes the allowed values for a message, "one of f32, f16". Returns the text, which may be
 * `out`. */
enum { ALLOWED_BYTES = 128 };
static const char *allowed_text(const struct parameter_values *values, char out[ALLOWED_BYTES])
{
    const char *separator = "one of ";
    int length = 0;
    if (values->read != NULL)
        return values->allowed;
    for (uint32_t i = 0; length < ALLOWED_BYTES; i++) {
        const char *name = values->choices != NULL ? values->choices[i] : NULL;
        if (values->choices == NULL && i < GEMMD_DTYPE_COUNT)
            name = dtype_name((enum gemmd_dtype)i);
        if (name == NULL)
            break;
        if (values->choices == NULL && !parameter_takes_dtype(values, (enum gemmd_dtype)i))
            continue;
        length += snprintf(out + length, (size_t)(ALLOWED_BYTES - length), "%s%s", separator, name);
        separator = ", ";
    }
    return out;
}

/* Returns the index of the parameter of that name, or table->count if the table has no parameter of
 * that name. */
static uint32_t find_parameter(const struct parameter_table *table, const char *name)
{
    uint32_t index = 0;
    while (index < table->count && (table->entries[index].name[0] != name[0] ||
                                    strcmp(table->entries[index].name, name) != 0))
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
static const char *suggest_value(const struct parameter_values *values, const char *value)
{
    uint64_t scratch; /* values with suggestions are numbers, flags and enums */
    if (values->choices != NULL)
        return nearest_choice(values->choices, value);
    const char *suggestion = values->dtypes != 0       ? dtype_suggest(value)
                             : values->suggest != NULL ? values->suggest(value)
                                                       : NULL;
    return suggestion != NULL && read_value(values, suggestion, &scratch) ? suggestion : NULL;
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
    const struct parameter_values *values = parameter->values;
    if ((*given & 1u << index) != 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, name, "%s is given twice", name);
    if (value == NULL || !read_value(values, value, (char *)request + parameter->offset)) {
        char hint[PARAMETER_HINT_BYTES], allowed[ALLOWED_BYTES];
        const char *suggestion = value != NULL ? suggest_value(values, value) : NULL;
        return fault_set(fault, GEMMD_ERR_MALFORMED, name, "%s is '%.64s'; it must be %s%s", name,
                         value != NULL ? value : "", allowed_text(values, allowed),
                         parameter_hint(suggestion, hint));
    }
    *given |= 1u << index;
    return GEMMD_OK;
}

const char *parameter_choice(const struct parameter_table *table, const char *name, uint32_t index)
{
    const uint32_t at = find_parameter(table, name);
    const char *const *choices = at < table->count ? table->entries[at].values->choices : NULL;
    while (choices != NULL && *choices != NULL && index-- > 0)
        choices++;
    return choices != NULL ? *choices : NULL;
}
