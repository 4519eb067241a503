#include "server/http/digest_fields.h"

#include <nettle/base64.h>
#include <stdio.h>
#include <string.h>

#include "proto/base64.h"

static const struct {
    const char *name;
    uint32_t bytes;
} algorithms[DIGEST_ALGORITHMS] = {
    [DIGEST_SHA256] = {"sha-256", 32}, [DIGEST_SHA512] = {"sha-512", 64}};

/* One member of a dictionary: key=value. A member without a value is true, here "". */
struct member {
    const char *key, *value;
    size_t key_bytes, value_bytes;
};

uint32_t digest_bytes(enum digest_algorithm algorithm)
{
    return algorithms[algorithm].bytes;
}

const char *digest_name(enum digest_algorithm algorithm)
{
    return algorithms[algorithm].name;
}

static const char *skip_spaces(const char *at)
{
    return at + strspn(at, " \t");
}

/* The length of a bare item; 0: there is none. */
static size_t item_length(const char *at)
{
    size_t length = 1;
    if (*at == ':') { /* a byte sequence */
        length += strcspn(at + 1, ":");
        return at[length] == ':' ? length + 1 : 0;
    }
    if (*at != '"')
        return strcspn(at, ",; \t");
    while (at[length] != '"' && at[length] != '\0')
        length += at[length] == '\\' && at[length + 1] != '\0' ? 2 : 1;
    return at[length] == '"' ? length + 1 : 0;
}

static size_t key_length(const char *at)
{
    const bool starts = (*at >= 'a' && *at <= 'z') || *at == '*';
    return starts ? strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789_-.*") : 0;
}

/* Reads "=item", if there is one. Returns false if it is malformed. */
static bool read_item(const char **at, const char **value, size_t *bytes)
{
    *value = "";
    *bytes = 0;
    if (**at != '=')
        return true;
    *value = *at + 1;
    *bytes = item_length(*value);
    *at = *value + *bytes;
    return *bytes > 0;
}

/* Reads the next member, with its parameters, which are ignored. Returns false at the end, or if
 * the dictionary is malformed, with `*at` at the place. */
static bool next_member(const char **at, struct member *member)
{
    const char *p = skip_spaces(*at), *ignored;
    size_t ignored_bytes;
    *at = p;
    member->key = p;
    member->key_bytes = key_length(p);
    p += member->key_bytes;
    if (member->key_bytes == 0 || !read_item(&p, &member->value, &member->value_bytes))
        return false;
    while (*p == ';') {
        p = skip_spaces(p + 1);
        const size_t length = key_length(p);
        p += length;
        if (length == 0 || !read_item(&p, &ignored, &ignored_bytes))
            return false;
    }
    p = skip_spaces(p);
    if (*p == ',') {
        p = skip_spaces(p + 1);
        if (*p == '\0') /* a comma at the end */
            return false;
    } else if (*p != '\0') {
        return false;
    }
    *at = p;
    return true;
}

static enum digest_algorithm find_algorithm(const struct member *member)
{
    for (int i = 0; i < DIGEST_ALGORITHMS; i++)
        if (strlen(algorithms[i].name) == member->key_bytes &&
            memcmp(algorithms[i].name, member->key, member->key_bytes) == 0)
            return (enum digest_algorithm)i;
    return DIGEST_NONE;
}

bool digest_read_values(const char *line, struct digest_values *values)
{
    struct member member;
    while (next_member(&line, &member)) {
        const enum digest_algorithm algorithm = find_algorithm(&member);
        if (algorithm == DIGEST_NONE)
            continue;
        if (member.value_bytes < 2 || member.value[0] != ':' ||
            !base64_read(member.value + 1, member.value_bytes - 2, values->value[algorithm],
                         algorithms[algorithm].bytes))
            return false;
        values->given[algorithm] = true;
    }
    return *line == '\0';
}

void digest_read_wishes(const char *line, struct digest_wishes *wishes)
{
    struct digest_wishes read = *wishes;
    struct member member;
    while (next_member(&line, &member)) {
        const enum digest_algorithm algorithm = find_algorithm(&member);
        if (algorithm == DIGEST_NONE)
            continue;
        if (member.value_bytes == 1 && member.value[0] >= '0' && member.value[0] <= '9')
            read.weight[algorithm] = member.value[0] - '0';
        else if (member.value_bytes == 2 && memcmp(member.value, "10", 2) == 0)
            read.weight[algorithm] = 10;
        else
            return;
    }
    if (*line == '\0')
        *wishes = read;
}

enum digest_algorithm digest_wanted(const struct digest_wishes *wishes)
{
    const int32_t sha256 = wishes->weight[DIGEST_SHA256], sha512 = wishes->weight[DIGEST_SHA512];
    if (sha256 <= 0 && sha512 <= 0)
        return DIGEST_NONE;
    return sha512 > sha256 ? DIGEST_SHA512 : DIGEST_SHA256;
}

void digest_write(enum digest_algorithm algorithm, const unsigned char *value,
                  char out[DIGEST_TEXT_MAX])
{
    char text[BASE64_ENCODE_RAW_LENGTH(DIGEST_BYTES_MAX) + 1];
    const uint32_t bytes = algorithms[algorithm].bytes;
    base64_encode_raw(text, bytes, value);
    text[BASE64_ENCODE_RAW_LENGTH(bytes)] = '\0';
    snprintf(out, DIGEST_TEXT_MAX, "%s=:%s:", algorithms[algorithm].name, text);
}
