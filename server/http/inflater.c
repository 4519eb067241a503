#include "server/http/inflater.h"
#include "proto/size.h"
#include "proto/size_text.h"

#include <inttypes.h>
#include <stdlib.h>

#define ZLIB_CONST
#include <zlib.h>

/* Bytes of a decompressed piece at most, and what zlib's inflateInit2 adds to the size of its
 * window to read gzip. */
enum { PIECE_BYTES = 16 * 1024, GZIP_FORMAT = 16 };

struct inflater {
    z_stream stream;
    enum coding coding;
    uint32_t max_ratio;
    bool ended; /* the stream has ended; with gzip another member may follow */
    uint64_t in_bytes, out_bytes;
};

struct inflater *inflater_create(enum coding coding, uint32_t max_ratio)
{
    struct inflater *inflater = calloc(1, sizeof *inflater);
    if (inflater == NULL)
        return NULL;
    inflater->coding = coding;
    inflater->max_ratio = max_ratio;
    if (inflateInit2(&inflater->stream, MAX_WBITS + (coding == CODING_GZIP ? GZIP_FORMAT : 0)) !=
        Z_OK) {
        free(inflater);
        return NULL;
    }
    return inflater;
}

void inflater_destroy(struct inflater *inflater)
{
    if (inflater == NULL)
        return;
    inflateEnd(&inflater->stream);
    free(inflater);
}

static enum gemmd_error inflater_fault(const struct inflater *inflater, int result,
                                       struct fault *fault)
{
    const char *name = coding_name(inflater->coding);
    if (result == Z_MEM_ERROR)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory to inflate the body");
    if (result == Z_NEED_DICT)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "the body is compressed with a dictionary, which is not supported");
    return fault_set(fault, GEMMD_ERR_MALFORMED, NULL, "the body is not %s: %s", name,
                     inflater->stream.msg != NULL ? inflater->stream.msg : "it is damaged");
}

uint64_t inflater_longest_bytes(uint64_t bytes)
{
    uint64_t longest = UINT64_MAX;
    if (size_mul(bytes, INFLATER_GROWTH, &longest))
        (void)size_add(longest, INFLATER_FREE_BYTES, &longest);
    return longest;
}

static enum gemmd_error check_lengths(const struct inflater *inflater, struct fault *fault)
{
    if (inflater->in_bytes > inflater_longest_bytes(inflater->out_bytes))
        return fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL,
                         "%s of the compressed body become only %s; a compressed body may be %d "
                         "times as long as the body, and %s longer",
                         size_text(inflater->in_bytes).text, size_text(inflater->out_bytes).text,
                         INFLATER_GROWTH, size_text(INFLATER_FREE_BYTES).text);
    if (inflater->max_ratio == 0 || inflater->out_bytes <= INFLATER_FREE_BYTES ||
        inflater->out_bytes / inflater->max_ratio < inflater->in_bytes)
        return GEMMD_OK;
    return fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL,
                     "%s of the compressed body become %s; the limit is %" PRIu32
                     " times as many (--max-inflation)",
                     size_text(inflater->in_bytes).text, size_text(inflater->out_bytes).text,
                     inflater->max_ratio);
}

/* Starts the next gzip member, when bytes follow the end of a stream. Other codings have only one
 * stream. */
static enum gemmd_error begin_member(struct inflater *inflater, struct fault *fault)
{
    if (inflater->coding != CODING_GZIP)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "the body goes on after the end of its %s stream",
                         coding_name(inflater->coding));
    inflateReset(&inflater->stream);
    inflater->ended = false;
    return GEMMD_OK;
}

enum gemmd_error inflater_add(struct inflater *inflater, const void *bytes, uint64_t length,
                              inflater_sink *sink, void *context, struct fault *fault)
{
    z_stream *stream = &inflater->stream;
    unsigned char piece[PIECE_BYTES];
    const unsigned char *at = bytes;
    while (length > 0) {
        if (inflater->ended && begin_member(inflater, fault) != GEMMD_OK)
            return fault->code;
        const uInt given = length > UINT32_MAX ? UINT32_MAX : (uInt)length;
        stream->next_in = at;
        stream->avail_in = given;
        do {
            stream->next_out = piece;
            stream->avail_out = PIECE_BYTES;
            const uInt before = stream->avail_in;
            const int result = inflate(stream, Z_NO_FLUSH);
            const uInt taken = before - stream->avail_in, made = PIECE_BYTES - stream->avail_out;
            inflater->in_bytes += taken;
            inflater->out_bytes += made;
            /* Z_BUF_ERROR: zlib needs more input. */
            if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
                return inflater_fault(inflater, result, fault);
            inflater->ended = result == Z_STREAM_END;
            if (check_lengths(inflater, fault) != GEMMD_OK)
                return fault->code;
            if (made > 0 && !sink(context, piece, made))
                return GEMMD_ERR_CANCELLED;
        } while (!inflater->ended && stream->avail_out == 0);
        at += given - stream->avail_in;
        length -= given - stream->avail_in;
    }
    return GEMMD_OK;
}

enum gemmd_error inflater_end(const struct inflater *inflater, struct fault *fault)
{
    return inflater->ended
               ? GEMMD_OK
               : fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                           "the body ends in the middle of its %s stream, after %" PRIu64
                           " bytes that make %" PRIu64,
                           coding_name(inflater->coding), inflater->in_bytes, inflater->out_bytes);
}

uint64_t inflater_total_bytes(const struct inflater *inflater)
{
    return inflater->out_bytes;
}
