/*
 * attention_operands.h - Q, K, V and the lengths of their entries, from files and pipes.
 */
#ifndef GEMMCTL_ATTENTION_OPERANDS_H
#define GEMMCTL_ATTENTION_OPERANDS_H

#include "client/gemmctl/tensor_files.h"
#include "proto/attention_request.h"

/* Where the operands are. The file `q` alone holds them all, as safetensors; several "-" are read
 * from standard input in the order of a request's body: the lengths, Q, K, V. */
struct attention_paths {
    const char *q, *k, *v;                        /* k and v NULL: resident, or in the file `q` */
    const char *lens_q, *lens_kv;                 /* NULL: none, or in that file */
    const struct tensor *resident_k, *resident_v; /* on the daemon already; NULL: not */
    const enum format *format; /* NULL: by their names, npy for what has no telling name */
};

struct attention_files {
    struct attention_operands bound; /* views onto the files */
    struct tensor_files files;
};

/* As operands_open: afterwards `request` has its dtype and all its sizes. Its `k` and `v` are set
 * if they are resident. */
enum gemmd_error attention_files_open(struct attention_files *operands,
                                      const struct attention_paths *paths,
                                      struct attention_request *request, struct fault *fault);
void attention_files_close(struct attention_files *operands);

#endif
