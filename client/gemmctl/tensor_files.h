/*
 * tensor_files.h - a command's operands, read from files and pipes of any of the formats.
 *
 * Each operand has a file of its own, or one safetensors file holds them all. Several "-" are read
 * from standard input one after another, in the operands' order.
 */
#ifndef GEMMCTL_TENSOR_FILES_H
#define GEMMCTL_TENSOR_FILES_H

#include "client/gemmctl/input.h"
#include "proto/operands.h"

enum { TENSOR_FILES_MAX = OPERAND_TABLE_MAX };

/* The operands of a command, and their properties that the request tells before the files are read.
 */
struct tensor_files_kind {
    const struct operand_table *table;
    const char *of;    /* the computation, in messages: "a product" */
    const char *sizes; /* options that raw bytes need: "--m, --n and --k" */
    /* One operand suffices, the others are optional: if a safetensors file that may hold several
     * has one tensor only, the tensor is that operand, whatever its name. */
    bool one_suffices;
    /* The type of an .npy operand whose type NumPy has no name for (npy.h). `before` are the
     * operands that have been read. */
    enum gemmd_dtype (*carrier)(const void *request, const struct tensor *before, uint32_t operand);
    /* Whether the request has the sizes that raw bytes need. */
    bool (*knows_sizes)(const void *request);
    /* Sets `out` to the shape and type of an operand of raw bytes. False: the operand is too large.
     */
    bool (*raw)(const void *request, const struct tensor *before, uint32_t operand,
                struct tensor *out);
};

struct tensor_files_wanted {
    const struct tensor_files_kind *kind;
    const void *request;
    const char *paths[TENSOR_FILES_MAX]; /* NULL: the operand has no file of its own */
    uint32_t together; /* the operand whose safetensors file also holds all operands without a file
                          of their own; `count`: there is no such file */
    const enum format *format; /* NULL: by each file's name, npy if the name tells no format */
};

struct tensor_files {
    struct tensor
        tensors[TENSOR_FILES_MAX]; /* views onto `inputs` and `copies`; rank 0: no operand */
    struct input inputs[TENSOR_FILES_MAX + 1]; /* a file for each operand, and standard input */
    void *copies[TENSOR_FILES_MAX]; /* copies of column-major operands in row-major order */
    enum format format; /* format of the first file, and of the result if nothing else tells it */
};

/* Reads all files. Every byte of every file has to belong to an operand. On failure `fault` has a
 * sentence. The caller calls tensor_files_close in any case; the views are valid until then. */
enum gemmd_error tensor_files_open(struct tensor_files *files,
                                   const struct tensor_files_wanted *wanted, struct fault *fault);
/* `tensors` are views of all operands, in the table's order. Copies those that are column-major in
 * row-major order; they become views of the copies. */
enum gemmd_error tensor_files_make_row_major(struct tensor_files *files,
                                             const struct tensor_files_kind *kind,
                                             struct tensor *tensors, struct fault *fault);
void tensor_files_close(struct tensor_files *files);

#endif
