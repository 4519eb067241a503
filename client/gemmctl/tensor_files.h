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

/* What the operands of a command are, and what its request says of them before they are read. */
struct tensor_files_kind {
    const struct operand_table *table;
    const char *of;    /* "a product" */
    const char *sizes; /* the options that raw files need: "--m, --n and --k" */
    /* What a type that NumPy has no name for is (npy.h), given the operands before it. */
    enum gemmd_dtype (*carrier)(const void *request, const struct tensor *before, uint32_t operand);
    /* Whether the request has these sizes; and the shape and type of a raw operand, false if that
     * is too large. */
    bool (*knows_sizes)(const void *request);
    bool (*raw)(const void *request, const struct tensor *before, uint32_t operand,
                struct tensor *out);
};

struct tensor_files_wanted {
    const struct tensor_files_kind *kind;
    const void *request;
    const char *paths[TENSOR_FILES_MAX]; /* NULL: no file of its own */
    uint32_t together;                   /* the operand whose file holds all that have none of their
                                            own; `count`: there is no such file */
    const enum format *format; /* NULL: by their names, npy for what has no telling name */
};

struct tensor_files {
    struct tensor tensors[TENSOR_FILES_MAX];   /* views onto the inputs and copies; rank 0: none */
    struct input inputs[TENSOR_FILES_MAX + 1]; /* one for each, and standard input */
    void *copies[TENSOR_FILES_MAX];            /* of what had to be put in row-major order */
    enum format format; /* of the first file: that of the result, if nothing else tells */
};

/* Reads them. Every byte of every file must be used. On failure a sentence. Released with
 * tensor_files_close in any case; the views live as long. */
enum gemmd_error tensor_files_open(struct tensor_files *files,
                                   const struct tensor_files_wanted *wanted, struct fault *fault);
/* Copies what is column-major of views of all operands, which become views of the copies. */
enum gemmd_error tensor_files_turn(struct tensor_files *files, const struct tensor_files_kind *kind,
                                   struct tensor *tensors, struct fault *fault);
void tensor_files_close(struct tensor_files *files);

#endif
