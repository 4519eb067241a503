/*
 * operands.h - A, B, bias, C0 and scales, from files and pipes of any of the formats.
 */
#ifndef GEMMCTL_OPERANDS_H
#define GEMMCTL_OPERANDS_H

#include "client/gemmctl/tensor_files.h"
#include "proto/gemm_request.h"

/* The files of the operands. If one file is named, it is a safetensors file that holds all
 * operands. Several paths "-" are read from standard input in the order A, B, bias, C0,
 * scales of A, scales of B. */
struct operand_paths {
    const char *a, *b; /* `b` is NULL if B is resident, or in the file `a` */
    const struct tensor *resident_a,
        *resident_b; /* operands that are resident or --random; NULL: a file's */
    const char *bias, *c0, *a_scale,
        *b_scale; /* NULL: there is no such operand, or the one safetensors file holds it, or the
                     resident operand brings its own scales */
    const enum format *format; /* NULL: by each file's name, npy if the name tells no format */
};

struct operands {
    struct gemm_operands bound; /* views onto the files */
    struct tensor_files files;
};

/* Reads the operands and binds them to `request`, which then has its dtype, out, m, n, k, batch and
 * bias. The operands become row-major. On failure `fault` has a sentence. The caller calls
 * operands_close in any case; the views are valid until then. */
enum gemmd_error operands_open(struct operands *operands, const struct operand_paths *paths,
                               struct gemm_request *request, struct fault *fault);
void operands_close(struct operands *operands);

#endif
