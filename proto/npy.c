#include "proto/npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "proto/dtype.h"
#include "proto/size.h"

/* The text of a header that has not been scanned yet. The text is a Python dict literal, which the
 * scanner parses and never evaluates. */
struct scanner {
    const char *at, *end;
};

enum { DESCR_MAX = 16, KEY_MAX = 16 };

static const char magic[6] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};

static void skip_space(struct scanner *scanner)
{
    while (scanner->at < scanner->end && (*scanner->at == ' ' || *scanner->at == '\t' ||
                                          *scanner->at == '\n' || *scanner->at == '\r'))
        scanner->at++;
}

/* Skips space, then consumes `token` if the text continues with `token`. */
static bool take_token(struct scanner *scanner, char token)
{
    skip_space(scanner);
    if (scanner->at == scanner->end || *scanner->at != token)
        return false;
    scanner->at++;
    return true;
}

static bool next_is(struct scanner *scanner, char token)
{
    skip_space(scanner);
    return scanner->at < scanner->end && *scanner->at == token;
}

static bool take_word(struct scanner *scanner, const char *word)
{
    size_t length = strlen(word);
    skip_space(scanner);
    if ((size_t)(scanner->end - scanner->at) < length || memcmp(scanner->at, word, length) != 0)
        return false;
    scanner->at += length;
    return true;
}

/* Consumes a quoted string. False if the string has an escape or an unprintable character, or does
 * not fit in `out`. */
static bool take_string(struct scanner *scanner, char *out, uint32_t capacity)
{
    uint32_t length = 0;
    char quote = next_is(scanner, '"') ? '"' : '\'';
    if (!take_token(scanner, quote))
        return false;
    for (; scanner->at < scanner->end && *scanner->at != quote; scanner->at++) {
        if (*scanner->at < ' ' || *scanner->at > '~' || *scanner->at == '\\' ||
            length + 1 >= capacity)
            return false;
        out[length++] = *scanner->at;
    }
    out[length] = '\0';
    return take_token(scanner, quote);
}

static bool take_u64(struct scanner *scanner, uint64_t *out)
{
    const char *start;
    uint64_t value = 0;
    skip_space(scanner);
    for (start = scanner->at;
         scanner->at < scanner->end && *scanner->at >= '0' && *scanner->at <= '9'; scanner->at++)
        if (!size_mul(value, 10, &value) ||
            !size_add(value, (uint64_t)(*scanner->at - '0'), &value))
            return false;
    *out = value;
    return scanner->at > start;
}

/* Consumes a tuple of whole numbers, the shape: "()", "(3,)" or "(3, 4)". */
static bool take_shape(struct scanner *scanner, struct tensor *tensor)
{
    bool comma = true;
    if (!take_token(scanner, '('))
        return false;
    for (tensor->rank = 0; comma && !next_is(scanner, ')'); tensor->rank++) {
        if (tensor->rank == TENSOR_MAX_RANK || !take_u64(scanner, &tensor->dims[tensor->rank]))
            return false;
        comma = take_token(scanner, ',');
        if (!comma && tensor->rank == 0) /* "(3)" is a number, not a tuple */
            return false;
    }
    return take_token(scanner, ')');
}

/* Returns whether `descr` is the integer type that may carry the elements of `carrier`, a type
 * without a NumPy name. */
static bool is_carrier(const char *descr, enum gemmd_dtype carrier)
{
    return (carrier == GEMMD_BF16 && strcmp(descr, "<u2") == 0) ||
           (carrier == GEMMD_F8_E4M3 && strcmp(descr, "|u1") == 0);
}

/* Finds the type that a descr such as "<f4" names. */
static enum gemmd_error read_descr(const char *descr, enum gemmd_dtype carrier,
                                   enum gemmd_dtype *dtype, struct fault *fault)
{
    if (descr[0] == '\0' || strchr("<>|=", descr[0]) == NULL || descr[1] == '\0')
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "the .npy header's descr '%s' is not a type; one looks like '<f4'", descr);
    for (unsigned i = 0; i < GEMMD_DTYPE_COUNT; i++) {
        const char *known = dtype_npy((enum gemmd_dtype)i);
        /* A type of one byte has no byte order, and writers disagree on the byte order of a raw
         * type. */
        bool any_order = dtype_size((enum gemmd_dtype)i) == 1;
        bool raw = known[1] == 'V' && descr[0] == '|';
        if (strcmp(descr + 1, known + 1) == 0 && (descr[0] == known[0] || any_order || raw)) {
            *dtype = (enum gemmd_dtype)i;
            return GEMMD_OK;
        }
    }
    if (is_carrier(descr, carrier)) {
        *dtype = carrier;
        return GEMMD_OK;
    }
    return fault_set(fault, GEMMD_ERR_UNSUPPORTED, NULL,
                     "an array of '%s' is %s; offered are <f8 (f64), <f4 (f32), <f2 (f16), |i1 "
                     "(i8), <i4 (i32), V2 (bf16, also <u2 with dtype=bf16) and V1 (f8_e4m3, also "
                     "|u1 with dtype=f8_e4m3)",
                     descr, descr[0] == '>' ? "big-endian" : "not offered");
}

static enum gemmd_error not_a_header(struct fault *fault)
{
    return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                     "the .npy header is not a dict of 'descr' (such as '<f4'), 'fortran_order' "
                     "(True or False) and 'shape' (at most %d dimensions), each once",
                     TENSOR_MAX_RANK);
}

/* Parses the whole header: a dict that has each of the three keys once, in any order. Only space
 * may follow the dict. */
static enum gemmd_error read_dict(struct scanner *scanner, enum gemmd_dtype carrier,
                                  struct tensor *tensor, struct fault *fault)
{
    bool have_descr = false, have_order = false, have_shape = false, comma = true;
    char key[KEY_MAX], descr[DESCR_MAX] = "";
    if (!take_token(scanner, '{'))
        return not_a_header(fault);
    while (comma && !next_is(scanner, '}')) {
        if (!take_string(scanner, key, sizeof key) || !take_token(scanner, ':'))
            return not_a_header(fault);
        if (strcmp(key, "descr") == 0 && !have_descr) {
            if (next_is(scanner, '[') || next_is(scanner, '('))
                return fault_set(fault, GEMMD_ERR_UNSUPPORTED, NULL,
                                 "structured arrays are not offered; use one plain type such as "
                                 "'<f4'");
            if (!take_string(scanner, descr, sizeof descr))
                return not_a_header(fault);
            have_descr = true;
        } else if (strcmp(key, "fortran_order") == 0 && !have_order) {
            tensor->fortran = take_word(scanner, "True");
            if (!tensor->fortran && !take_word(scanner, "False"))
                return not_a_header(fault);
            have_order = true;
        } else if (strcmp(key, "shape") == 0 && !have_shape) {
            if (!take_shape(scanner, tensor))
                return not_a_header(fault);
            have_shape = true;
        } else {
            return not_a_header(fault);
        }
        comma = take_token(scanner, ',');
    }
    if (!take_token(scanner, '}') || !have_descr || !have_order || !have_shape)
        return not_a_header(fault);
    skip_space(scanner);
    if (scanner->at != scanner->end)
        return not_a_header(fault);
    return read_descr(descr, carrier, &tensor->dtype, fault);
}

enum gemmd_error npy_decode_header(const void *bytes, uint64_t length, enum gemmd_dtype carrier,
                                   struct tensor *tensor, uint64_t *header_bytes,
                                   struct fault *fault)
{
    const unsigned char *at = bytes;
    struct tensor read = {0};
    uint64_t front = 10; /* bytes of magic, version and length of the dict */
    uint64_t dict = 0;

    if (length > 0 && memcmp(at, magic, length < sizeof magic ? length : sizeof magic) != 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "no .npy array starts here: it would start with \\x93NUMPY");
    if (length >= 8) {
        if (at[6] < 1 || at[6] > 3 || at[7] != 0)
            return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                             "the .npy version is %u.%u; 1.0, 2.0 and 3.0 are read", at[6], at[7]);
        front = at[6] == 1 ? 10 : 12;
    }
    if (length >= front) {
        for (uint64_t i = front; i > 8; i--)
            dict = dict << 8 | at[i - 1];
        if (dict > NPY_HEADER_LIMIT)
            return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                             "the .npy header says it is %" PRIu64 " bytes long; at most %d are "
                             "read",
                             dict, NPY_HEADER_LIMIT);
    }
    if (length < front + dict) {
        *header_bytes = front + dict;
        return fault_set(fault, GEMMD_ERR_CONFLICT, NULL,
                         "the .npy header is cut short: it takes %" PRIu64 " bytes, there are "
                         "%" PRIu64,
                         front + dict, length);
    }

    struct scanner scanner = {(const char *)at + front, (const char *)at + front + dict};
    enum gemmd_error code = read_dict(&scanner, carrier, &read, fault);
    if (code != GEMMD_OK)
        return code;
    bool fortran = read.fortran;
    if (!tensor_init(&read, read.dtype, read.dims, read.rank, NULL))
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "the size of the .npy array's shape does not fit in 63 bits");
    read.fortran = fortran;
    *tensor = read;
    *header_bytes = front + dict;
    return GEMMD_OK;
}

uint64_t npy_overlap(const struct body_front *front, uint64_t data_at, uint64_t at)
{
    enum { LOOK_BACK_BYTES = 4096 };
    for (uint64_t bytes = 1; bytes <= at - data_at && bytes <= LOOK_BACK_BYTES; bytes++)
        if (front->received >= at - bytes + sizeof magic &&
            memcmp(front->bytes + at - bytes, magic, sizeof magic) == 0)
            return bytes;
    return 0;
}

enum gemmd_error npy_decode_front(struct body_front *front, uint64_t *at, enum gemmd_dtype carrier,
                                  struct tensor *tensor, struct fault *fault)
{
    struct tensor read = {0};
    const unsigned char *bytes = front->bytes + *at;
    const uint64_t length = front->length - *at;
    const uint64_t received = front->received > *at ? front->received - *at : 0;
    uint64_t header_bytes = 0;
    enum gemmd_error code =
        npy_decode_header(bytes, received, carrier, &read, &header_bytes, fault);
    if (code == GEMMD_ERR_CONFLICT && front->received < front->length) {
        front->wanted = *at + header_bytes;
        return code;
    }
    if (code == GEMMD_ERR_CONFLICT) { /* the whole body has been received */
        if (fault != NULL)
            fault->code = GEMMD_ERR_MALFORMED;
        return GEMMD_ERR_MALFORMED;
    }
    if (code != GEMMD_OK)
        return code;
    if (read.bytes > length - header_bytes)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "the .npy array's shape takes %" PRIu64 " bytes, there are %" PRIu64,
                         read.bytes, length - header_bytes);
    read.data = bytes + header_bytes;
    *tensor = read;
    *at += header_bytes + read.bytes;
    return GEMMD_OK;
}

enum gemmd_error npy_decode(const void *bytes, uint64_t length, enum gemmd_dtype carrier,
                            struct tensor *tensor, uint64_t *consumed, struct fault *fault)
{
    struct body_front all = {.bytes = bytes, .length = length, .received = length};
    uint64_t at = 0;
    enum gemmd_error code = npy_decode_front(&all, &at, carrier, tensor, fault);
    if (code == GEMMD_OK)
        *consumed = at;
    return code;
}

uint32_t npy_header(const struct tensor *tensor, char out[NPY_HEADER_MAX])
{
    char shape[TENSOR_MAX_RANK * 22 + 1];
    char text[NPY_HEADER_MAX];
    tensor_shape_text(tensor, shape, sizeof shape);
    int dict =
        snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': %s, 'shape': (%s%s), }",
                 dtype_npy(tensor->dtype), tensor->fortran ? "True" : "False", shape,
                 tensor->rank == 1 ? "," : "");
    /* The header is 10 bytes, the dict, spaces that pad the header to a multiple of 64, and a line
     * end. */
    uint32_t length = (10 + (uint32_t)dict + 1 + 63) / 64 * 64;
    memcpy(out, magic, sizeof magic);
    out[6] = 1;
    out[7] = 0;
    out[8] = (char)(length - 10);
    out[9] = 0;
    memset(out + 10, ' ', length - 10);
    memcpy(out + 10, text, (size_t)dict);
    out[length - 1] = '\n';
    return length;
}
