/*
 * operands.h - A, B, bias and C0, from files and pipes of any of the formats.
 */
#ifndef GEMMCTL_OPERANDS_H
#define GEMMCTL_OPERANDS_H

#include "client/gemmctl/tensor_files.h"
#include "proto/gemm_request.h"

/* Where the operands are. One file alone holds them all, as safetensors; several "-" are read from
 * standard input in the order A, B, bias, C0. */
struct operand_paths {
    const char *a, *b; /* b NULL: both are in the file `a`, or it is resident */
    const struct tensor *resident_a, *resident_b; /* on the daemon already; NULL: not */
    const char *bias, *c0;                        /* NULL: none, or in that file */
    const enum format *format; /* NULL: by their names, npy for what has no telling name */
};

struct operands {
    struct gemm_operands bound; /* views onto the files */
    struct tensor_files files;
};

/* Reads and binds: afterwards `request` has its dtype, out, m, n, k, batch and bias, and the
 * operands are row-major. On failure a sentence. Released with operands_close in any case; the
 * views live as long. */
enum gemmd_error operands_open(struct operands *operands, const struct operand_paths *paths,
                               struct gemm_request *request, struct fault *fault);
void operands_close(struct operands *operands);

#endif
