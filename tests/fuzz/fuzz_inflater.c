/* Compressed bodies: a byte that chooses the coding and the ratio, a byte for the length of the
 * pieces in which the body arrives, and the body. */
#include <string.h>
#include <zlib.h>

#include "fuzz.h"
#include "input.h"
#include "server/http/inflater.h"

struct output {
    uint64_t length, limit; /* the sink refuses what exceeds the limit */
    uLong sum;
};

static bool sink(void *context, const void *bytes, uint64_t length)
{
    struct output *output = context;
    if (length > output->limit - output->length)
        return false;
    output->length += length;
    output->sum = adler32(output->sum, bytes, (uInt)length);
    return true;
}

static enum gemmd_error inflate_pieces(struct fuzz_input body, enum coding coding, uint32_t ratio,
                                       size_t step, struct output *output)
{
    struct inflater *inflater = inflater_create(coding, ratio);
    struct fault fault = {.code = GEMMD_OK};
    enum gemmd_error code = GEMMD_OK;
    uint64_t before = 0;
    output->sum = adler32(0, NULL, 0);
    MUST(inflater != NULL);
    while (body.length > 0 && code == GEMMD_OK) {
        size_t taken;
        uint8_t *piece = input_take(&body, step, &taken);
        code = inflater_add(inflater, piece, taken, sink, output, &fault);
        MUST(code == GEMMD_ERR_CANCELLED || fault.code == code);
        MUST(inflater_total_bytes(inflater) >= before);
        before = inflater_total_bytes(inflater);
        free(piece);
    }
    if (code == GEMMD_OK) {
        MUST(inflater_total_bytes(inflater) == output->length);
        code = inflater_end(inflater, &fault);
    }
    MUST(code == GEMMD_OK || code == GEMMD_ERR_MALFORMED || code == GEMMD_ERR_TOO_LARGE ||
         (code == GEMMD_ERR_CANCELLED && output->limit < UINT64_MAX));
    inflater_destroy(inflater);
    return code;
}

static void check_round_trip(const uint8_t *bytes, size_t length, size_t step)
{
    uLongf bound = compressBound((uLong)length);
    uint8_t *compressed = malloc(bound);
    struct output output = {.limit = UINT64_MAX};
    MUST(compressed != NULL && compress(compressed, &bound, bytes, (uLong)length) == Z_OK);
    const struct fuzz_input body = {compressed, bound};
    MUST(inflate_pieces(body, CODING_DEFLATE, 0, step, &output) == GEMMD_OK);
    MUST(output.length == length);
    MUST(output.sum == adler32(adler32(0, NULL, 0), bytes, (uInt)length));
    free(compressed);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct fuzz_input input = {bytes, length};
    const uint8_t choice = input_byte(&input);
    const size_t step = 1 + input_byte(&input);
    const enum coding coding = choice & 1 ? CODING_GZIP : CODING_DEFLATE;
    const uint32_t ratio = 1 + (choice >> 1);
    /* A few MiB are enough to exceed the ratio. */
    struct output whole = {.limit = 4 << 20}, pieces = {.limit = 4 << 20};
    struct output limited = {.limit = UINT64_MAX};
    const enum gemmd_error code = inflate_pieces(input, coding, 0, input.length, &whole);
    MUST(inflate_pieces(input, coding, 0, step, &pieces) == code);
    MUST(code != GEMMD_OK || (pieces.length == whole.length && pieces.sum == whole.sum));
    if (inflate_pieces(input, coding, ratio, step, &limited) == GEMMD_OK)
        MUST(limited.length <= INFLATER_FREE_BYTES || limited.length <= ratio * input.length);
    check_round_trip(input.bytes, input.length, step);
    return 0;
}
