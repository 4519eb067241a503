/*
 * options.h - gemmctl's command line. One table of options drives the parser and --help, and the
 * build writes the manual pages and the completions from the table (documents/).
 */
#ifndef GEMMCTL_OPTIONS_H
#define GEMMCTL_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "proto/gemm_request.h"

#define OR_ACT(NAME, name) "|" name
#define ACT_CHOICES "none" GEMM_ACT_FUNCTION_MAP(OR_ACT)

/* Each command has a bit, by which the table below says which commands have an option. The names
 * after FOR_ALL stand for several commands. */
#define FOR_GEMM (UINT64_C(1) << 0)
#define FOR_BENCH (UINT64_C(1) << 1) /* of products */
#define FOR_INFO (UINT64_C(1) << 2)
#define FOR_METRICS (UINT64_C(1) << 3)
#define FOR_READY (UINT64_C(1) << 4) /* ready, ping and version */
#define FOR_HELP (UINT64_C(1) << 5)
#define FOR_TENSOR_PUT (UINT64_C(1) << 6)
#define FOR_TENSOR_GET (UINT64_C(1) << 7)
#define FOR_TENSOR_LS (UINT64_C(1) << 8)
#define FOR_TENSOR_RM (UINT64_C(1) << 9)
#define FOR_JOB_STATUS (UINT64_C(1) << 10)
#define FOR_JOB_WAIT (UINT64_C(1) << 11)
#define FOR_JOB_RESULT (UINT64_C(1) << 12)
#define FOR_JOB_CANCEL (UINT64_C(1) << 13)
#define FOR_ATTENTION (UINT64_C(1) << 14)
#define FOR_JOB_LS (UINT64_C(1) << 15)
#define FOR_BENCH_ATTENTION (UINT64_C(1) << 16)
#define FOR_BENCH_LADDER (UINT64_C(1) << 17)
#define FOR_COMPLETION (UINT64_C(1) << 18)
#define FOR_TOP (UINT64_C(1) << 19)
#define FOR_REDUCE (UINT64_C(1) << 20)
#define FOR_SOFTMAX (UINT64_C(1) << 21)
#define FOR_CONV (UINT64_C(1) << 22)
#define FOR_BENCH_CONV (UINT64_C(1) << 23)
#define FOR_BENCH_REDUCE (UINT64_C(1) << 24)
#define FOR_BENCH_SOFTMAX (UINT64_C(1) << 25)
#define FOR_SEQUENCE_PUT (UINT64_C(1) << 26)
#define FOR_SEQUENCE_FORK (UINT64_C(1) << 27)
#define FOR_SEQUENCE_APPEND (UINT64_C(1) << 28)
#define FOR_SEQUENCE (UINT64_C(1) << 29) /* sequence truncate, sequence ls and sequence rm */
#define FOR_SEQUENCE_GET (UINT64_C(1) << 30)
#define FOR_EXPERTS (UINT64_C(1) << 31)
#define FOR_BENCH_EXPERTS (UINT64_C(1) << 32)
#define FOR_ALL UINT64_MAX               /* every bit, also those of no command */
#define FOR_ASKING (FOR_ALL & ~FOR_HELP) /* commands that send requests */
#define FOR_PRODUCTS (FOR_GEMM | FOR_BENCH)
#define FOR_ATTENDING (FOR_ATTENTION | FOR_BENCH_ATTENTION)
#define FOR_ROWS (FOR_REDUCE | FOR_SOFTMAX)
#define FOR_CONVS (FOR_CONV | FOR_BENCH_CONV)
#define FOR_REDUCES (FOR_REDUCE | FOR_BENCH_REDUCE)
#define FOR_SOFTMAXES (FOR_SOFTMAX | FOR_BENCH_SOFTMAX)
#define FOR_MIXTURES (FOR_EXPERTS | FOR_BENCH_EXPERTS)
#define FOR_COMPUTING (FOR_GEMM | FOR_ATTENTION | FOR_ROWS | FOR_CONV | FOR_EXPERTS)
#define FOR_STORING (FOR_GEMM | FOR_ROWS | FOR_CONV | FOR_EXPERTS)
#define FOR_CHECKING (FOR_GEMM | FOR_ROWS | FOR_CONV)
#define FOR_LOADING                                                                                \
    (FOR_BENCH | FOR_BENCH_ATTENTION | FOR_BENCH_CONV | FOR_BENCH_REDUCE | FOR_BENCH_SOFTMAX |     \
     FOR_BENCH_EXPERTS)
#define FOR_COMPUTED (FOR_COMPUTING | FOR_LOADING)
#define FOR_READERS (FOR_COMPUTING | FOR_TENSOR_PUT | FOR_SEQUENCE_APPEND)
#define FOR_HEADS (FOR_ATTENDING | FOR_SEQUENCE_PUT)
#define FOR_LAYERS (FOR_ATTENTION | FOR_SEQUENCE_APPEND | FOR_SEQUENCE_GET)
#define FOR_WRITERS (FOR_COMPUTING | FOR_TENSOR_GET | FOR_JOB_RESULT)
#define FOR_JOBS (FOR_JOB_STATUS | FOR_JOB_WAIT | FOR_JOB_RESULT | FOR_JOB_CANCEL | FOR_JOB_LS)
#define FOR_TENSORS (FOR_TENSOR_PUT | FOR_TENSOR_GET | FOR_TENSOR_LS | FOR_TENSOR_RM)

/* X(ID, name, letter, argument, standard, takers, parameter, help). `argument` names the option's
 * value, NULL for a flag; an argument with a "|" lists the values that can be chosen. `standard` is
 * the default, NULL if there is none. `takers` are the commands that have the option. `parameter`
 * is 1 if the option is a parameter of POST /gemm or of another operation's path, of the same name
 * with underscores for dashes.
 *
 * `argument`, `standard` and `help` consist of parts between "; ". A part that begins with commands
 * and a colon, as in "bench, bench conv: 64", is about those commands alone. --help prints the
 * parts of `help` as they are, and the manual pages make a sentence of each, unless
 * client/man/options.roff has a longer text. The completions show the first part. */
#define OPTION_MAP(X)                                                                              \
    X(OUTPUT, "output", 'o', "FILE", "-, standard output", FOR_WRITERS, 0,                         \
      "file to write the result to")                                                               \
    X(BIAS, "bias", 0, "FILE", "no bias", FOR_GEMM | FOR_CONV | FOR_EXPERTS, 0,                    \
      "gemm: file with a vector of n elements of C's type, which is added to every row; "          \
      "conv: file with a vector of one element of Y's type for each filter; "                      \
      "experts: file with a matrix of C's type, with a row for each expert and an element for "    \
      "each column of the expert")                                                                 \
    X(C0, "c0", 0, "FILE", NULL, FOR_GEMM, 0,                                                      \
      "file with the matrix C0 of C's type, which --beta multiplies; needed if --beta is "         \
      "not 0")                                                                                     \
    X(RANDOM, "random", 0, "gemm: MxNxK; attention, conv, reduce, softmax, experts: SHAPE", NULL,  \
      FOR_CHECKING | FOR_ATTENTION | FOR_EXPERTS, 0,                                               \
      "gemm: multiply random matrices in place of files; attention: use a random Q of this "       \
      "shape, batch x heads x sequence x head size, such as 1x8x512x64, and a random K and V of "  \
      "--kv-heads, --skv and --dv, in place of files; conv: use a random X of this "               \
      "shape, such as 8x64x56x56, and a random W of --filters, --filter-h and --filter-w, "        \
      "in place of files; reduce, softmax: use a random X of this shape, such as 64x1000, "        \
      "in place of a file; experts: use a random A of this shape, such as 64x512, a random W of "  \
      "--n and --count, and random experts, in place of files; without --output the result is "    \
      "dropped")                                                                                   \
    X(SEED, "seed", 0, "NUMBER", "1", FOR_CHECKING | FOR_ATTENTION | FOR_EXPERTS, 0,               \
      "seed of --random")                                                                          \
    X(CHECK, "check", 0, NULL, NULL, FOR_CHECKING, 0,                                              \
      "compare the result with one that gemmctl computes itself in f64")                           \
    X(STORE, "store", 0, "NAME", NULL, FOR_STORING, 1,                                             \
      "keep the result on the daemon as a tensor of this name, instead of fetching the "           \
      "result")                                                                                    \
    X(ASYNC, "async", 0, NULL, NULL, FOR_COMPUTING, 0,                                             \
      "hand the request in as a job, print the job's id, and exit; --timeout is then the "         \
      "deadline of the job; without --timeout, the daemon's default applies")                      \
    X(M, "m", 'm', "ROWS", "bench, bench experts: 64", FOR_PRODUCTS | FOR_MIXTURES, 1,             \
      "gemm, bench: rows of op(A) and C; experts, bench experts: rows of A and C; gemm: files "    \
      "of raw bytes need --m, --n and --k; experts: files of raw bytes need --m, --n, --k and "    \
      "--count; gemm, experts: other files tell their own sizes")                                  \
    X(N, "n", 'n', "gemm, bench, experts, bench experts: COLUMNS; bench ladder: SIDE",             \
      "bench: 64; bench experts: 1024; bench ladder: 4096",                                        \
      FOR_PRODUCTS | FOR_BENCH_LADDER | FOR_MIXTURES, 1,                                           \
      "gemm, bench: columns of op(B) and C; experts, bench experts: columns of C; bench ladder: "  \
      "side of the largest square, from "                                                          \
      "256 to 4096")                                                                               \
    X(K, "k", 'k', "DEPTH", "bench: 64; bench experts: 1024", FOR_PRODUCTS | FOR_MIXTURES, 1,      \
      "gemm, bench: columns of op(A) and rows of op(B); experts, bench experts: columns of A")     \
    X(EXPERT_COUNT, "count", 0, "COUNT", "bench experts: 8", FOR_MIXTURES, 1,                      \
      "number of experts, which are the matrices of W")                                            \
    X(TOPK, "topk", 0, "COUNT", "1", FOR_MIXTURES, 1,                                              \
      "number of experts of a row, whose results are added")                                       \
    X(GLU, "glu", 0, NULL, NULL, FOR_MIXTURES, 1,                                                  \
      "an expert has 2*n columns, of which the first n are the gate: the result is "               \
      "act(A*W_gate)*(A*W_up)")                                                                    \
    X(WEIGHTS, "weights", 0, "FILE", "every weight is 1", FOR_EXPERTS, 0,                          \
      "file with an f32 array of the shape of EXPERTS: the weights of the experts of each row")    \
    X(OP, "op", 0, "sum|mean|max|min|norm2|logsumexp|argmax", "sum", FOR_REDUCES, 1,               \
      "what is computed of the elements; norm2: the square root of the sum of squares; "           \
      "logsumexp: the logarithm of the sum of exponentials; argmax: the index of the first "       \
      "greatest element")                                                                          \
    X(AXIS, "axis", 0, "NUMBER", "-1", FOR_REDUCES, 1,                                             \
      "dimension that is reduced, from 0; a negative number counts from the last "                 \
      "dimension, which is -1")                                                                    \
    X(KEEPDIMS, "keepdims", 0, NULL, NULL, FOR_REDUCES, 1,                                         \
      "keep the reduced dimension in the shape of Y, as 1")                                        \
    X(LOG, "log", 0, NULL, NULL, FOR_SOFTMAXES, 1, "compute the logarithm of the softmax")         \
    X(LENS, "lens", 0, "FILE", "all elements count", FOR_SOFTMAX, 0,                               \
      "file with an int32 array of the shape of X's first dimensions: how many elements of "       \
      "each row there count; in a file of raw bytes a vector, for the first dimension")            \
    X(CHANNELS, "channels", 0, "COUNT", "bench conv: 64", FOR_CONVS, 1,                            \
      "channels of X; conv: files of raw bytes need --channels, --height, --width, "               \
      "--filters, --filter-h and --filter-w; conv: other files tell their own sizes")              \
    X(HEIGHT, "height", 0, "SIZE", "bench conv: 56", FOR_CONVS, 1, "height of the images of X")    \
    X(WIDTH, "width", 0, "SIZE", "bench conv: 56", FOR_CONVS, 1, "width of the images of X")       \
    X(FILTERS, "filters", 0, "COUNT", "bench conv: 64", FOR_CONVS, 1,                              \
      "filters of W, which are the channels of Y")                                                 \
    X(FILTER_H, "filter-h", 0, "SIZE", "bench conv: 3", FOR_CONVS, 1, "height of the filters")     \
    X(FILTER_W, "filter-w", 0, "SIZE", "bench conv: 3", FOR_CONVS, 1, "width of the filters")      \
    X(GROUPS, "groups", 0, "COUNT", "1", FOR_CONVS, 1,                                             \
      "number of groups of channels, of which each filter sees one")                               \
    X(STRIDE, "stride", 0, "S[,S]", "1", FOR_CONVS, 1,                                             \
      "step of the filter: one number for both directions, or the steps down and to the "          \
      "right")                                                                                     \
    X(DILATION, "dilation", 0, "D[,D]", "1", FOR_CONVS, 1,                                         \
      "distance of neighbouring elements of a filter: one number for both directions, or "         \
      "the distances down and to the right")                                                       \
    X(PADDING, "padding", 0, "SIDES", "0", FOR_CONVS, 1,                                           \
      "zeros around X: same, for as many as give Y the size of X divided by the stride; "          \
      "one number for all sides; two for top and bottom, left and right; or four for top, "        \
      "bottom, left, right")                                                                       \
    X(DTYPE, "dtype", 0, "f64|f32|f16|bf16|f8_e4m3|i8|i32",                                        \
      "gemm, conv: the files' own type, f32 for raw bytes; attention: the files' own type, "       \
      "f16 for raw bytes; reduce, softmax, tensor put: the file's own type, f32 for raw "          \
      "bytes; experts: the files' own type, f32 for raw bytes; bench, bench conv, bench reduce, "  \
      "bench softmax, bench experts: f32; bench attention, sequence "                              \
      "put: f16",                                                                                  \
      FOR_COMPUTED | FOR_TENSOR_PUT | FOR_SEQUENCE_PUT, 1,                                         \
      "gemm, bench: element type of A and B, any but i32; attention, bench attention: "            \
      "element type of Q, K and V: f32, f16 or bf16; conv, bench conv: element "                   \
      "type of X and W: f32, f16, bf16 or i8; reduce, bench reduce: element type of X, any "       \
      "but f8_e4m3; softmax, bench softmax: element type of X: f64, f32, f16 or bf16; experts, "   \
      "bench experts: element type of A and W: f64, f32, f16 or bf16; "                            \
      "tensor put: element type of the tensor; sequence put: element type of keys and values: "    \
      "f32, f16 or bf16")                                                                          \
    X(SHAPE, "shape", 0, "D0[,D1...]", "bench reduce, bench softmax: 1024,1024",                   \
      FOR_TENSOR_PUT | FOR_REDUCES | FOR_SOFTMAXES, 1,                                             \
      "tensor put: dimensions of the tensor in a file of raw bytes; reduce, softmax: "             \
      "dimensions of X in a file of raw bytes; tensor put, reduce, softmax: --dtype names "        \
      "the type of the elements; bench reduce, bench softmax: dimensions of X")                    \
    X(EVICTABLE, "evictable", 0, NULL, NULL, FOR_TENSOR_PUT, 0,                                    \
      "let the daemon drop the tensor when another tensor needs the memory")                       \
    X(CONTIGUOUS, "contiguous", 0, NULL, NULL, FOR_TENSOR_PUT, 0,                                  \
      "keep the rows one after another on the device, as gemmctl conv wants X; nothing is "        \
      "sent, and nothing changes, if the daemon has a tensor of the name and content "             \
      "already")                                                                                   \
    X(PACKED, "packed", 0,                                                                         \
      "compressed-tensors|gptq|gptq_v2|awq|int-quantized|float-quantized|mxfp4|nvfp4|"             \
      "nvfp4_modelopt",                                                                            \
      "the file is an array", FOR_TENSOR_PUT, 0,                                                   \
      "the file is a safetensors file of packed weights in this format, which have --bits bits")   \
    X(BITS, "bits", 0, "4|8", "8 for int-quantized and float-quantized, else 4", FOR_TENSOR_PUT,   \
      0, "with --packed: bits of a weight")                                                        \
    X(ROW, "row", 0, "NUMBER", "0", FOR_TENSOR_GET, 0,                                             \
      "number of the first element of the tensor's first dimension to fetch, from 0")              \
    X(ROWS, "rows", 0, "COUNT", "all that follow", FOR_TENSOR_GET, 0,                              \
      "number of elements of the first dimension to fetch, at least 1")                            \
    X(OUT, "out", 0, "f64|f32|f16|bf16|i8|i32",                                                    \
      "gemm: the type of A and B, but bf16 for f8_e4m3 and with --scales, and i32 for i8; "        \
      "bench: the type of A and B, but bf16 for f8_e4m3, and i32 for i8; conv, bench conv: "       \
      "the type of X, but i32 for i8; reduce, bench reduce: the type of X, but i32 for "           \
      "argmax and for sums of integers, and f64 for means of integers; softmax, bench "            \
      "softmax: the type of X; experts, bench experts: the type of A",                             \
      FOR_PRODUCTS | FOR_REDUCES | FOR_SOFTMAXES | FOR_CONVS | FOR_MIXTURES, 1,                    \
      "gemm: element type of C, C0 and bias; bench: element type of C; conv: element type "        \
      "of Y and of the bias; reduce, softmax, bench conv, bench reduce, bench softmax: "           \
      "element type of Y; experts, bench experts: element type of C and of the bias")              \
    X(PRECISION, "precision", 0,                                                                   \
      "gemm, bench: full|tf32|f8; conv, bench conv, experts, bench experts: full|tf32", "full",    \
      FOR_PRODUCTS | FOR_CONVS | FOR_MIXTURES, 1,                                                  \
      "with tf32, the daemon may round f32 operands to TF32; gemm, bench: with f8, the daemon "    \
      "may multiply f8_e4m3 operands with the device's own f8 instructions, which are faster "     \
      "and less exact")                                                                            \
    X(SCALES, "scales", 0, "none|rowcol|block", "none", FOR_GEMM, 1,                               \
      "scales of f8_e4m3 and i8 operands; rowcol: one for each row of op(A) and column of "        \
      "op(B); block: one for each 128 steps of k of a row of op(A) and each 128 x 128 "            \
      "elements of op(B)")                                                                         \
    X(A_SCALE, "a-scale", 0, "FILE",                                                               \
      "the scales in the one safetensors file, or those of the tensor on the daemon", FOR_GEMM, 0, \
      "file with the f32 scales of A")                                                             \
    X(B_SCALE, "b-scale", 0, "FILE",                                                               \
      "the scales in the one safetensors file, or those of the tensor on the daemon", FOR_GEMM, 0, \
      "file with the f32 scales of B")                                                             \
    X(TRANSA, "transa", 0, NULL, NULL, FOR_PRODUCTS, 1, "A is stored transposed, k x m")           \
    X(TRANSB, "transb", 0, NULL, NULL, FOR_PRODUCTS | FOR_MIXTURES, 1,                             \
      "gemm, bench: B is stored transposed, n x k; experts, bench experts: each expert of W is "   \
      "stored transposed")                                                                         \
    X(ALPHA, "alpha", 0, "NUMBER", "1", FOR_PRODUCTS | FOR_CONVS, 1,                               \
      "gemm, bench: factor of the product op(A)*op(B); conv, bench conv: factor of the "           \
      "sums of products")                                                                          \
    X(BETA, "beta", 0, "NUMBER", "0", FOR_GEMM, 1, "factor of the matrix C0")                      \
    X(BATCH, "batch", 0, "COUNT", "1", FOR_PRODUCTS | FOR_ATTENDING | FOR_CONVS, 1,                \
      "gemm, attention: number of problems of one shape, which lie one after another in "          \
      "each operand; bench, bench attention: number of problems of one shape in each "             \
      "request; conv, bench conv: number of images of X")                                          \
    X(ACT, "act", 0, ACT_CHOICES, "none", FOR_PRODUCTS | FOR_CONVS | FOR_MIXTURES, 1,              \
      "gemm, bench, conv, bench conv: activation function, applied last to each element of the "   \
      "result; experts, bench experts: activation function of an expert's result, or of the gate " \
      "with --glu")                                                                                \
    X(HEADS, "heads", 0, "COUNT", "bench attention: 8", FOR_ATTENDING, 1,                          \
      "heads of Q; attention: files of raw bytes need --heads, --sq and --d; attention: "          \
      "other files tell their own sizes")                                                          \
    X(KV_HEADS, "kv-heads", 0, "COUNT", "attention, bench attention: as many as Q has", FOR_HEADS, \
      1, "heads of K and V; attention, bench attention: --heads is a multiple of them")            \
    X(SQ, "sq", 0, "LENGTH", "bench attention: 512", FOR_ATTENDING, 1,                             \
      "number of queries, the length of Q")                                                        \
    X(SKV, "skv", 0, "LENGTH", "the length of Q; attention: with --sequence, that of the layer",   \
      FOR_ATTENDING, 1, "number of keys, the length of K and V")                                   \
    X(D, "d", 0, "SIZE", "bench attention: 64", FOR_HEADS, 1,                                      \
      "attention, bench attention: head size of Q and K, at most 256; sequence put: head size "    \
      "of K, at most 256")                                                                         \
    X(DV, "dv", 0, "SIZE",                                                                         \
      "attention, bench attention: the head size of Q; sequence put: that of K", FOR_HEADS, 1,     \
      "attention, bench attention: head size of V and O, at most 256; sequence put: head size "    \
      "of V, at most 256")                                                                         \
    X(LAYOUT, "layout", 0,                                                                         \
      "attention, bench attention, sequence append, sequence get: bhsd|bshd; conv, bench conv: "   \
      "nchw|nhwc",                                                                                 \
      "attention, bench attention, sequence append, sequence get: bhsd; conv, bench conv: nchw",   \
      FOR_ATTENDING | FOR_CONVS | FOR_SEQUENCE_APPEND | FOR_SEQUENCE_GET, 1,                       \
      "attention, bench attention: order of the dimensions of Q, K, V and O, where bhsd is "       \
      "batch, heads, sequence, head size, and bshd is batch, sequence, heads, head size; "         \
      "conv, bench conv: order of the dimensions of X and Y, where nchw is batch, "                \
      "channels, height, width, and nhwc is batch, height, width, channels; sequence append, "     \
      "sequence get: "                                                                             \
      "order of the dimensions of K and V, where bhsd is heads, positions, head size, and bshd "   \
      "is positions, heads, head size")                                                            \
    X(W_LAYOUT, "w-layout", 0, "kcrs|krsc", "kcrs", FOR_CONVS, 1,                                  \
      "order of the dimensions of W, whatever the layout of X is, where kcrs is filters, "         \
      "channels, height, width, and krsc is filters, height, width, channels")                     \
    X(CAUSAL, "causal", 0, NULL, NULL, FOR_ATTENDING, 1,                                           \
      "mask: a query sees no key to the right of its position; the last query is at the "          \
      "position of the last key")                                                                  \
    X(WINDOW, "window", 0, "COUNT", "no such mask", FOR_ATTENDING, 1,                              \
      "mask: a query sees no key that is more than COUNT positions to its left")                   \
    X(WINDOW_RIGHT, "window-right", 0, "COUNT", "no such mask", FOR_ATTENDING, 1,                  \
      "mask: a query sees no key that is more than COUNT positions to its right")                  \
    X(SCALE, "scale", 0,                                                                           \
      "attention, bench attention, softmax, bench softmax: NUMBER; tensor put, tensor get: "       \
      "FILE",                                                                                      \
      "attention, bench attention: 1/sqrt(d); softmax, bench softmax: 1; tensor put: the "         \
      "tensor 'scale' of a safetensors file, if the file has the tensors 'tensor' and "            \
      "'scale'; tensor get: the scales are part of the safetensors file of --output",              \
      FOR_ATTENDING | FOR_SOFTMAXES | FOR_TENSOR_PUT | FOR_TENSOR_GET, 1,                          \
      "attention, bench attention: factor of the scores Q*K^T; softmax, bench softmax: "           \
      "factor of X; tensor put: file with the f32 scales of a tensor of f8_e4m3 or i8; "           \
      "tensor get: file to write the f32 scales of the tensor to, for which only "                 \
      "safetensors files have place beside the tensor")                                            \
    X(SOFTCAP, "softcap", 0, "NUMBER", "0", FOR_ATTENDING, 1,                                      \
      "bound c of the scores, which become c*tanh(score/c); 0: no bound")                          \
    X(MASK, "mask", 0, "FILE", "no such mask", FOR_ATTENTION, 0,                                   \
      "file with a mask of the dimensions batch, heads, queries and keys, each of the first "      \
      "three of which may be 1, and leading ones of 1 left out; of the type of Q, its "            \
      "elements are added to the scores, and minus infinity hides a key; of i8, 0 hides a "        \
      "key; raw bytes are queries times keys of the type of Q")                                    \
    X(OFFSET, "offset", 0, "COUNT", "the number of keys less that of queries", FOR_ATTENTION, 1,   \
      "position of the first query among the keys, for --causal, --window, --window-right and "    \
      "--slopes")                                                                                  \
    X(SLOPES, "slopes", 0, "FILE", "no such bias", FOR_ATTENTION, 0,                               \
      "file with a vector of f32: ALiBi's slope of each head of Q; the slope, times the "          \
      "distance of a key from the position of a query, is subtracted from the score")              \
    X(SINKS, "sinks", 0, "FILE", "no such scores", FOR_ATTENTION, 0,                               \
      "file with a vector of f32: for each head of Q the score of a sink, which has no value "     \
      "and takes its part of the weights of each row")                                             \
    X(LENS_Q, "lens-q", 0, "FILE", "all queries are valid", FOR_ATTENTION, 0,                      \
      "file with a vector of int32: the number of valid queries of each entry of the "             \
      "batch; rows of O beyond that number are zeros")                                             \
    X(LENS_KV, "lens-kv", 0, "FILE", NULL, FOR_ATTENTION, 0,                                       \
      "file with a vector of int32: the number of valid keys of each entry of the batch; "         \
      "give both --lens-q and --lens-kv, or neither")                                              \
    X(RAGGED, "ragged", 0, NULL, NULL, FOR_ATTENTION, 0,                                           \
      "the rows of the entries follow one another, without padding; --lens-q and --lens-kv have "  \
      "the first query and the first key of each entry, and then the number of all")               \
    X(SEQUENCE, "sequence", 0, "NAME", "no sequence", FOR_ATTENTION, 1,                            \
      "sequence on the daemon whose keys and values are K and V; without --append, the command "   \
      "has "                                                                                       \
      "no files of K and V")                                                                       \
    X(APPEND, "append", 0, NULL, NULL, FOR_ATTENTION, 1,                                           \
      "append K and V to the sequence first; Q has the queries of the same positions")             \
    X(POSITION, "position", 0, "COUNT",                                                            \
      "attention, sequence append: the length of the layer; sequence get: 0", FOR_LAYERS, 1,       \
      "number of positions that precede those of K and V; attention, sequence append: if the "     \
      "sequence has these positions with the same bytes already, nothing is appended; "            \
      "attention: needs --append")                                                                 \
    X(LAYER, "layer", 0, "NUMBER", "0", FOR_LAYERS, 1, "layer of the sequence, from 0")            \
    X(LAYERS, "layers", 0, "COUNT", "1", FOR_SEQUENCE_PUT, 1, "number of layers, at most 256")     \
    X(LENGTH, "length", 0, "COUNT", "all positions", FOR_SEQUENCE_FORK, 1,                         \
      "number of positions of each layer that the new sequence has")                               \
    X(POSITIONS, "positions", 0, "COUNT", "sequence get: all that follow",                         \
      FOR_SEQUENCE_APPEND | FOR_SEQUENCE_GET, 0,                                                   \
      "sequence append: number of positions in files of raw bytes, which do not tell it; "         \
      "sequence get: number of positions to fetch, at least 1")                                    \
    X(LSE, "lse", 0, "FILE", "not written", FOR_ATTENTION | FOR_JOB_RESULT, 0,                     \
      "file to write the logarithm of each row's sum of exponentials to, an array of f32 "         \
      "with the dimensions batch, heads and sequence; job result: the attention has to be "        \
      "handed in with --with-lse")                                                                 \
    X(WITH_LSE, "with-lse", 0, NULL, NULL, FOR_ATTENTION, 0,                                       \
      "with --async: let the job compute the array that 'gemmctl job result --lse' fetches")       \
    X(KERNEL, "kernel", 0, "NAME", "the daemon's choice", FOR_COMPUTED, 1,                         \
      "name of the kernel that computes, as listed by 'gemmctl info'")                             \
    X(VERIFY, "verify", 0, "none|freivalds", "none", FOR_PRODUCTS, 1,                              \
      "with freivalds, the daemon checks the result before sending it")                            \
    X(PRIORITY, "priority", 0, "0-9", "4", FOR_COMPUTED, 1,                                        \
      "priority among the tenant's requests; 0 is the lowest, 9 the highest")                      \
    X(FORMAT, "format", 0, "npy|safetensors|raw",                                                  \
      "gemm, attention, conv, reduce, softmax, experts: by each file's name; tensor put, tensor "  \
      "get, job result, sequence append, sequence get: by each file's name, npy if the name "      \
      "tells none",                                                                                \
      FOR_READERS | FOR_WRITERS | FOR_SEQUENCE_GET, 0,                                             \
      "gemm, attention, conv, reduce, softmax, experts: format of all files; gemm, attention, "    \
      "conv, reduce, softmax, experts: if the name tells none, a file that is read is npy, and a " \
      "file "                                                                                      \
      "that is written has the format of the operands; tensor put, sequence append: format of "    \
      "the files; tensor get, job result, sequence get: format of the files that are written")     \
    X(IN_FORMAT, "in-format", 0, "npy|safetensors|raw", "--format", FOR_COMPUTING, 0,              \
      "format of the files that are read")                                                         \
    X(OUT_FORMAT, "out-format", 0, "npy|safetensors|raw", "--format", FOR_COMPUTING, 0,            \
      "format of the files that are written")                                                      \
    X(CONNECTIONS, "connections", 'c', "COUNT", "8", FOR_LOADING, 0,                               \
      "number of connections to the daemon, at least 1")                                           \
    X(IN_FLIGHT, "in-flight", 0, "COUNT", "as many as --connections", FOR_LOADING, 0,              \
      "number of requests that wait for an answer at any time, at least as many as "               \
      "--connections; requests that find no free connection wait in gemmctl")                      \
    X(DURATION, "duration", 'd', "TIME", "5s", FOR_LOADING, 0, "time to measure")                  \
    X(REQUESTS, "requests", 0, "COUNT", "0", FOR_LOADING, 0,                                       \
      "number of requests to measure; 0: as many as --duration allows")                            \
    X(PLOT, "plot", 0, "FILE", NULL, FOR_LOADING, 0,                                               \
      "file, whose name ends in .svg, to draw latencies in, over the time and of all answers; -: " \
      "draw in characters after the report")                                                       \
    X(ONCE, "once", 0, NULL, NULL, FOR_TOP, 0,                                                     \
      "print one report, of one --interval, and exit; so does top without a terminal")             \
    X(INTERVAL, "interval", 0, "TIME", "1s", FOR_TOP, 0,                                           \
      "time between two looks at the daemon, over which rates are measured")                       \
    X(TIMING, "timing", 0, NULL, NULL, FOR_COMPUTING | FOR_JOB_RESULT, 0,                          \
      "gemm, attention, conv, experts: print how long each stage of the request took in the "      \
      "daemon, "                                                                                   \
      "in ms, and the kernel's FLOP/s; reduce, softmax: print how long each stage of the "         \
      "request took in the daemon, in ms, and the kernel's bytes of operand and result per "       \
      "second; gemm, attention, conv, reduce, softmax, experts: the report of the result has the " \
      "rate of the whole request, from sending to receiving; job result: print how long "          \
      "each stage of the request took in the daemon, in ms")                                       \
    X(JSON, "json", 0, NULL, NULL, FOR_ASKING & ~FOR_COMPLETION, 0,                                \
      "print the result's description, or the error, as JSON on standard output")                  \
    X(SHM, "shm", 0, NULL, NULL, FOR_COMPUTED, 0,                                                  \
      "pass operands and results through memory that is shared with the daemon, whatever "         \
      "their size, or fail; --url has to name a Unix socket, and the daemon has to accept "        \
      "shared memory")                                                                             \
    X(NO_SHM, "no-shm", 0, NULL,                                                                   \
      "through shared memory if --url names a Unix socket, the daemon accepts shared "             \
      "memory, and the operands are large enough for it to be faster",                             \
      FOR_COMPUTED, 0, "pass operands and results through the socket")                             \
    X(URL, "url", 'u', "URL",                                                                      \
      "the environment's GEMMD_URL, else that of a context, else http://127.0.0.1:8080",           \
      FOR_ASKING, 0,                                                                               \
      "address of the daemon: http://HOST:PORT, https://HOST:PORT, HOST:PORT, which is "           \
      "short for the first, or unix:PATH")                                                         \
    X(CONTEXT, "context", 0, "NAME",                                                               \
      "the environment's GEMMD_CONTEXT, else the context 'default' if there is one", FOR_ASKING,   \
      0,                                                                                           \
      "context of ~/.config/gemmd/config, which names the daemon's address, the token's "          \
      "file and the files of certificates")                                                        \
    X(TOKEN_FILE, "token-file", 0, "FILE",                                                         \
      "the environment's GEMMD_TOKEN, else the token file of a context", FOR_ASKING, 0,            \
      "file whose first line is the bearer token for the daemon; a file that every user of the "   \
      "host can read or write is refused")                                                         \
    X(CA_FILE, "ca-file", 0, "FILE",                                                               \
      "the environment's GEMMD_CA_FILE, else the system's certificates", FOR_ASKING, 0,            \
      "PEM file with the certificates to trust for https")                                         \
    X(CERT_FILE, "cert-file", 0, "FILE", "the environment's GEMMD_CERT_FILE, else none",           \
      FOR_ASKING, 0,                                                                               \
      "PEM file of the client's certificate for https, for a daemon that asks for one")            \
    X(KEY_FILE, "key-file", 0, "FILE",                                                             \
      "the environment's GEMMD_KEY_FILE, else the certificate's file", FOR_ASKING, 0,              \
      "PEM file of the private key of --cert-file")                                                \
    X(TRACEPARENT, "traceparent", 0, "TRACE",                                                      \
      "the environment's TRACEPARENT if it is valid, else none", FOR_ASKING, 0,                    \
      "traceparent to send (W3C Trace Context), by which the daemon's log and spans belong "       \
      "to the caller's trace")                                                                     \
    X(CHECK_DIGEST, "check-digest", 0, NULL, NULL, FOR_ASKING, 0,                                  \
      "have the daemon send the SHA-256 of each answer, and compare it with the answer")           \
    X(TIMEOUT, "timeout", 't', "TIME", "5m, in top 5s", FOR_ASKING, 0,                             \
      "longest time of a request with all its repeats, such as 30 (seconds), 30s, 500ms or "       \
      "2m, at least 1ms")                                                                          \
    X(RETRIES, "retries", 0, "COUNT", "4, in bench, top, ready and ping 0", FOR_ASKING, 0,         \
      "how often to repeat a request that was refused for the moment (429, 503) or lost "          \
      "its connection; 0: never")                                                                  \
    X(QUIET, "quiet", 'q', NULL, NULL, FOR_ALL, 0, "print nothing but results and errors")         \
    X(NO_COLOR, "no-color", 0, NULL, NULL, FOR_ALL, 0,                                             \
      "print no colours; the environment's NO_COLOR, or TERM=dumb, does the same")                 \
    X(HELP, "help", 'h', NULL, NULL, FOR_ALL, 0,                                                   \
      "print help; after a command, the help of that command")                                     \
    X(VERSION, "version", 0, NULL, NULL, FOR_ALL, 0, "print the version of gemmctl")

enum option_id {
#define X(id, name, letter, argument, standard, takers, parameter, help) OPTION_##id,
    OPTION_MAP(X)
#undef X
        OPTION_COUNT
};

enum { OPTION_TEXT_MAX = 512 }; /* bytes for the parts of a text that are about one command */

struct option {
    const char *name;
    const char *argument;
    const char *standard;
    const char *help;
    uint64_t takers;
    char letter; /* 0: none */
    bool parameter;
};
extern const struct option options[OPTION_COUNT];

struct context;
struct command {
    const char *name; /* one word, or two: "tensor put"; a first word alone may be one too */
    uint64_t taker;   /* the command's bit, FOR_... */
    uint32_t operands_min, operands_max; /* operands_max may be OPERANDS_ANY */
    const char *usage;                   /* the operands, for the line "usage: gemmctl NAME ..." */
    const char *summary;
    const char *examples; /* lines of the help's section "Examples" */
    int (*run)(const struct context *context);
};

enum { OPERANDS_ANY = UINT32_MAX, PROBLEM_MAX = 256 };

/* A parsed command line. All strings are borrowed from argv. */
struct arguments {
    const struct command *command;    /* NULL: the command line names none */
    const char *group;                /* first word of a command of two words; else NULL */
    const char *values[OPTION_COUNT]; /* NULL: the option is not given; "1" or "0" for flags */
    char **operands; /* the words that are neither command nor option, and NULL; part of argv */
    uint32_t operand_count;
};

/* Parses a command line. The operands are moved to the front of argv, behind argv[0]; argv[argc] is
 * NULL. `commands` ends with an entry without a name. False, with a sentence in `problem`, if the
 * command line is wrong; the values of `arguments` then have --json wherever the command line has
 * it. With --help or --version, a missing command or operand is no error. */
bool arguments_parse(struct arguments *arguments, int argc, char *argv[],
                     const struct command *commands, char problem[PROBLEM_MAX]);

/* Writes the parts of a text of the table that are about `command`, or about every command, to
 * `out`, and returns `out`. NULL for `command`: only parts about every command. NULL for `text`:
 * nothing. `commands` ends with an entry without a name. */
const char *option_text(const struct command *commands, const struct command *command,
                        const char *text, char *out, size_t room);

/* Whether every command, but perhaps help, has the option. */
bool option_is_common(const struct option *option);

/* Whether the command's name has two words of which the first is `group`. */
bool command_is_of(const struct command *command, const char *group);

/* Reads the value of an option as a whole number; `otherwise` if the option is not given. False,
 * with a sentence in `problem`, if the value is malformed. */
bool option_count(const struct arguments *arguments, enum option_id id, uint32_t otherwise,
                  uint32_t *out, char problem[PROBLEM_MAX]);
/* Reads the value of an option as a time, such as "30", "30s", "1.5s", "500ms" or "2m", in
 * milliseconds, at least 1; `otherwise` if the option is not given. False, with a sentence in
 * `problem`, if the value is malformed. */
bool option_time_ms(const struct arguments *arguments, enum option_id id, uint32_t otherwise,
                    uint32_t *out, char problem[PROBLEM_MAX]);
/* Whether a flag is given. */
bool option_flag(const struct arguments *arguments, enum option_id id);

/* The name nearest to `word` by insertions, deletions, replacements and swaps of neighbours
 * (optimal string alignment), or NULL if none is near. Borrowed from `names`. */
const char *suggest(const char *word, const char *const *names, uint32_t count);

#endif
