/*
 * packed.h - packed weights: a matrix B of numbers of 4 or 8 bits with a scale for each group of
 * steps of k and column, as tools that quantise models write them.
 *
 * Element (p, j) of B is (q - z) * s: q is the stored integer, z the zero point and s the scale of
 * the group p / group of column j. Weights of e2m1 or e4m3 have no zero points, and q is their
 * value. Some formats have a factor for the whole matrix too, which is multiplied with the
 * product's alpha. A file holds q, s and z in several tensors, whose names, types and shapes are
 * those of the file's format (proto/PROTOCOL.md lists them). The daemon keeps the weights in one
 * arrangement of its own, from which the tensors of the file can be restored byte for byte. The
 * arrangement is, in this order:
 *
 *   weights  [columns / 16][k / steps] blocks of 512 bytes, each with 16 columns and 64 (4 bits) or
 *            32 (8 bits) steps of k. Both quotients are rounded up; elements beyond B are 0.
 *   scales   [groups][columns], in the type that the file has; scales of 8 bits, which are e8m0 or
 *            e4m3, as bf16, which has their values exactly
 *   zeros    [groups][columns] of 8 bits, as stored in the file, if the file has zero points
 *
 * Columns are rounded up to a multiple of 16, and scales and zeros start at multiples of 256 bytes.
 * A block consists of 32 places of 16 bytes, one for each thread of a warp, which are what the
 * thread needs as the operand A of mma.m16n8k16 if the 16 columns of B are the 16 rows of that
 * instruction. Place 8 * t + g is that of thread 4 * g + t. A place has a word of 32 bits for each
 * 16 steps of k (4 bits), or two words (8 bits, the lower 8 steps of k first). Nibble i of a word
 * has column g + 8 * (i % 2) and step 2 * t + i / 4 + 8 * (i / 2 % 2) of the 16 steps. Byte i of
 * word h has column g + 8 * (i % 2) and step 2 * t + i / 2 + 8 * h. Integers with a sign, which
 * files of int-quantized have, are arranged as integers without one, which are greater by 128.
 *
 * Functions keep no state and may be called from any thread.
 */
#ifndef PROTO_PACKED_H
#define PROTO_PACKED_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"
#include "proto/safetensors.h"

/* The formats of files, and their names, which are the values of the parameter `format`. */
#define PACKED_FORMAT_MAP(X)                                                                       \
    X(PACKED_NONE, "none")                                                                         \
    X(PACKED_COMPRESSED_TENSORS, "compressed-tensors")                                             \
    X(PACKED_GPTQ, "gptq")       /* stored zero points are one less than the zero points */        \
    X(PACKED_GPTQ_V2, "gptq_v2") /* stored zero points are the zero points */                      \
    X(PACKED_AWQ, "awq")                                                                           \
    X(PACKED_INT_QUANTIZED, "int-quantized")     /* i8 */                                          \
    X(PACKED_FLOAT_QUANTIZED, "float-quantized") /* e4m3 */                                        \
    X(PACKED_MXFP4, "mxfp4")                     /* e2m1, scales of e8m0 */                        \
    X(PACKED_NVFP4, "nvfp4")                     /* e2m1, scales of e4m3, and a divisor */         \
    X(PACKED_NVFP4_MODELOPT, "nvfp4_modelopt")   /* the same with a factor */
enum packed_format {
#define X(NAME, name) NAME,
    PACKED_FORMAT_MAP(X)
#undef X
};
extern const char *const packed_format_names[]; /* NULL-terminated */

enum {
    PACKED_COLUMNS = 16,      /* of a block */
    PACKED_BLOCK_BYTES = 512, /* of a block */
    PACKED_K_MULTIPLE = 32,   /* k and the steps of a group are multiples of this number */
    PACKED_ENTRIES_MAX = 6    /* tensors in a file */
};

enum packed_element { PACKED_INTEGER, PACKED_F4_E2M1, PACKED_F8_E4M3 };

/* The arrangement of a matrix of packed weights in memory. */
struct packed_layout {
    uint32_t bits; /* 4 or 8; 0: the matrix is not packed */
    enum packed_element element;
    uint64_t k, n;
    uint64_t group;               /* steps of k that have one scale: a divisor of k */
    enum gemmd_dtype scale_dtype; /* of the arrangement: f32, f16 or bf16 */
    bool has_zeros;
    int32_t zero;                              /* what is added to a stored zero point; without
                                                * zero points, the zero point of all groups */
    uint64_t scale_offset, zero_offset, bytes; /* from the start of the weights, in bytes */
};

/* Steps of k of a block: 64 or 32. */
static inline uint64_t packed_block_steps(const struct packed_layout *layout)
{
    return 256 / layout->bits;
}
/* Steps of k whose products are summed before the sum is multiplied by their scale; 0: weights are
 * multiplied by their scales, as those of e2m1 are, with which that is exact in f32. */
static inline uint64_t packed_sum_steps(const struct packed_layout *layout)
{
    return layout->element == PACKED_F4_E2M1 ? 0 : layout->group;
}
/* The number of columns, rounded up to whole blocks. */
static inline uint64_t packed_columns(const struct packed_layout *layout)
{
    return (layout->n + PACKED_COLUMNS - 1) / PACKED_COLUMNS * PACKED_COLUMNS;
}
/* The type of the elements of B: "f4_e2m1", "f8_e4m3", or of integers "i4" or "i8" if all zero
 * points are the same, else "u4" or "u8". */
const char *packed_type(const struct packed_layout *layout);

/* What a tensor of a file holds. */
enum packed_role {
    PACKED_WEIGHTS,
    PACKED_SCALES,
    PACKED_ZEROS,
    PACKED_SHAPE, /* n and k */
    PACKED_ORDER, /* the group of each step of k */
    PACKED_FACTOR /* of the whole matrix */
};

/* A file of packed weights. The entries are in the order of their roles, whatever their order in
 * the file is; the first two are PACKED_WEIGHTS and PACKED_SCALES. The data of an entry are NULL if
 * only its type and shape are known. */
struct packed_file {
    enum packed_format format;
    struct packed_layout layout;
    float factor; /* as stored, once packed_check has found it; 1: the file has none */
    uint32_t count;
    struct safetensors_entry entries[PACKED_ENTRIES_MAX];
    enum packed_role roles[PACKED_ENTRIES_MAX]; /* of the entries */
};

/* Whether a format has weights of so many bits. 0 stands for the format's own width: 8 of
 * int-quantized and float-quantized, else 4. */
bool packed_has_bits(enum packed_format format, uint32_t bits);

/* Finds the tensors in a file of `total` bytes, of which the first `length` bytes have been
 * received, and computes the layout. `bits` is the width of the weights; packed_has_bits is true of
 * it. Values are not checked. GEMMD_ERR_CONFLICT: the header has not been received completely.
 * GEMMD_ERR_MALFORMED: a tensor is missing, unknown, or of another type or shape than the format
 * says. GEMMD_ERR_UNSUPPORTED: the format has no weights of so many bits, or groups of this size or
 * matrices of these sizes are not offered. */
enum gemmd_error packed_find(enum packed_format format, uint32_t bits, const void *body,
                             uint64_t length, uint64_t total, struct packed_file *file,
                             struct fault *fault);
/* Checks the values of a file whose bytes have all arrived, and sets its factor.
 * GEMMD_ERR_MALFORMED: a scale is negative, infinite or NaN, the factor is not positive and finite,
 * a zero point is out of range, or weight_shape contradicts the tensors. GEMMD_ERR_UNSUPPORTED:
 * g_idx gives the steps of k another order. */
enum gemmd_error packed_check(struct packed_file *file, struct fault *fault);
/* What the products with B are multiplied by. */
double packed_factor(const struct packed_file *file);
/* Whether the file has the weights of a column side by side, and not those of a step of k. */
bool packed_is_by_column(enum packed_format format);
/* Returns the entry of a role; NULL: the file has none. */
const struct safetensors_entry *packed_entry(const struct packed_file *file, enum packed_role role);
/* Returns the bytes of the file's tensors. */
uint64_t packed_data_bytes(const struct packed_file *file);

/* Weights are arranged and restored in stripes, which are parts of the weights that lie one after
 * another in the file: 16 columns, or as many steps of k as a block has. */
uint64_t packed_stripes(const struct packed_file *file);
/* Returns the bytes from the start of the file's weights that hold the first `stripes` stripes. */
uint64_t packed_stripes_bytes(const struct packed_file *file, uint64_t stripes);
/* Arranges one stripe of the file's weights, or the scales and zero points, in `to`, which has
 * layout.bytes bytes. */
void packed_arrange_stripe(const struct packed_file *file, uint64_t stripe, void *to);
void packed_arrange_scales(const struct packed_file *file, void *to);
/* Restores one stripe of the file's weights, or the other tensors, from the arrangement `from`, in
 * `data`. The tensors of the file follow each other there in the order of the entries. */
void packed_restore_stripe(const struct packed_file *file, uint64_t stripe, const void *from,
                           void *data);
void packed_restore_others(const struct packed_file *file, const void *from, void *data);

#endif
