#include "client/query.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "client/failure.h"

/* ---- names and shapes ---- */

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"

enum { NAME_LENGTH_MAX = 128, JOB_LENGTH_MAX = 63 };

static bool consists_of(const char *text, const char *allowed, size_t length_max)
{
    size_t length = text != NULL ? strlen(text) : 0;
    return length >= 1 && length <= length_max && strspn(text, allowed) == length;
}

enum gemmd_error query_check_name(const char *name, const char *kind, const char *field,
                                  struct gemmd_error_info *error)
{
    if (consists_of(name, LETTERS DIGITS "._-", NAME_LENGTH_MAX))
        return GEMMD_OK;
    return failure_set(error, GEMMD_ERR_USAGE, field,
                       "'%.128s' is not the name of a %s; a name has 1 to %d of the characters "
                       "A-Z a-z 0-9 . _ -",
                       name != NULL ? name : "", kind, NAME_LENGTH_MAX);
}

bool query_is_later_name(const char *next, const char *after)
{
    return consists_of(next, LETTERS DIGITS "._-", NAME_LENGTH_MAX) && strcmp(next, after) > 0;
}

enum gemmd_error query_check_job(const char *id, struct gemmd_error_info *error)
{
    if (consists_of(id, LETTERS DIGITS "_-", JOB_LENGTH_MAX))
        return GEMMD_OK;
    return failure_set(error, GEMMD_ERR_USAGE, "id", "'%.64s' is not the id of a job",
                       id != NULL ? id : "");
}

enum gemmd_error shape_check_rank(uint32_t rank, struct fault *fault)
{
    if (rank >= 1 && rank <= 8)
        return GEMMD_OK;
    return fault_set(fault, GEMMD_ERR_MALFORMED, "rank",
                     "rank is %" PRIu32 "; it must be from 1 to 8", rank);
}

const char *shape_text(uint32_t rank, const uint64_t dims[8], char out[SHAPE_TEXT_BYTES])
{
    int length = snprintf(out, SHAPE_TEXT_BYTES, "%s", rank == 0 || rank > 8 ? "none" : "");
    for (uint32_t i = 0; rank <= 8 && i < rank; i++)
        length += snprintf(out + length, (size_t)(SHAPE_TEXT_BYTES - length), "%s%" PRIu64,
                           i > 0 ? "," : "", dims[i]);
    return out;
}

/* ---- the query ---- */

void query_continue(struct query *query, const struct parameter_table *table, char *out,
                    size_t room, void *request, struct fault *fault)
{
    *query = (struct query){
        .text = out, .room = room, .table = table, .request = request, .fault = fault};
    *fault = (struct fault){.code = GEMMD_OK};
}

void query_begin(struct query *query, const struct parameter_table *table, char *out, size_t room,
                 void *request, struct fault *fault)
{
    query_continue(query, table, out, room, request, fault);
    snprintf(out, room, "%s", table->path);
}

/* Writes a value, percent-encoded, and returns the length of the whole value, as snprintf does. */
static size_t query_encode(char *out, size_t room, const char *value)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~,";
    size_t length = 0;
    for (; *value != '\0'; value++) {
        char text[4];
        const size_t part =
            (size_t)snprintf(text, sizeof text, strchr(plain, *value) != NULL ? "%c" : "%%%02X",
                             (unsigned char)*value);
        if (length + part < room)
            memcpy(out + length, text, part + 1);
        length += part;
    }
    return length;
}

bool query_append(char *target, size_t room, const char *name, const char *value)
{
    const size_t before = strlen(target);
    const int front = snprintf(target + before, room - before,
                               "%c%s=", strchr(target, '?') == NULL ? '?' : '&', name);
    const size_t begin = before + (size_t)front;
    if (begin < room && query_encode(target + begin, room - begin, value) < room - begin)
        return true;
    target[before] = '\0';
    return false;
}

bool query_append_u64(char *target, size_t room, const char *name, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    return query_append(target, room, name, text);
}

void query_add(struct query *query, const char *name, const char *value)
{
    if (query->fault->code != GEMMD_OK ||
        parameter_set(query->table, query->request, name, value, query->fault) != GEMMD_OK)
        return;
    if (!query_append(query->text, query->room, name, value))
        fault_set(query->fault, GEMMD_ERR_MALFORMED, name, "the parameters are too long");
}

void query_add_u64(struct query *query, const char *name, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    query_add(query, name, text);
}

/* Writes the number with a decimal point, whatever the decimal point of the program's locale is. */
void query_add_f64(struct query *query, const char *name, double value)
{
    char text[40], plain[40];
    size_t length = 0;
    snprintf(text, sizeof text, "%.17g", value);
    for (const char *at = text; *at != '\0'; at++) {
        bool usual = strchr("0123456789+-einfa", *at) != NULL;
        if (usual || (length > 0 && plain[length - 1] != '.'))
            plain[length++] = usual ? *at : '.';
    }
    plain[length] = '\0';
    query_add(query, name, plain);
}

void query_add_u64_unless(struct query *query, const char *name, uint64_t value, uint64_t usual)
{
    if (value != usual)
        query_add_u64(query, name, value);
}

void query_add_f64_unless(struct query *query, const char *name, double value, double usual)
{
    if (value != usual)
        query_add_f64(query, name, value);
}

void query_add_if_named(struct query *query, const char *name, const char *value)
{
    if (value != NULL)
        query_add(query, name, value);
}

void query_add_dtype(struct query *query, const char *name, int32_t dtype)
{
    query_add(query, name, gemmd_dtype_name((enum gemmd_dtype)dtype));
}

void query_add_choice(struct query *query, const char *name, uint32_t value)
{
    const char *choice = parameter_choice(query->table, name, value);
    query_add(query, name, choice != NULL ? choice : "?");
}

void query_add_choice_unless(struct query *query, const char *name, uint32_t value, uint32_t usual)
{
    if (value != usual)
        query_add_choice(query, name, value);
}
