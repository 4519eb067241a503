/*
 * attention_operands.h - Q, K, V and the lengths of their entries, from files and pipes.
 */
#ifndef GEMMCTL_ATTENTION_OPERANDS_H
#define GEMMCTL_ATTENTION_OPERANDS_H

#include "client/gemmctl/tensor_files.h"
#include "proto/attention_request.h"

/* The files of the operands. If no other file is named, the safetensors file `q` holds all
 * operands. Several paths "-" are read from standard input in the order of a request's body: the
 * lengths, Q, K, V. */
struct attention_paths {
    const char *q, *k, *v; /* `k` or `v` is NULL if the operand is resident, or in the file `q` */
    const char *lens_q, *lens_kv; /* NULL: there are no lengths, or they are in the file `q` */
    const struct tensor *resident_k, *resident_v; /* resident operands; NULL: not resident */
    const enum format *format; /* NULL: by each file's name, npy if the name tells no format */
};

struct attention_files {
    struct attention_operands bound; /* views onto the files */
    struct tensor_files files;
};

/* Reads the operands and binds them to `request`, which then has its dtype and all sizes. If K or V
 * is resident, the caller has set the request's `k` or `v` before. On failure `fault` has a
 * sentence. The caller calls attention_files_close in any case; the views are valid until then. */
enum gemmd_error attention_files_open(struct attention_files *operands,
                                      const struct attention_paths *paths,
                                      struct attention_request *request, struct fault *fault);
void attention_files_close(struct attention_files *operands);

#endif
