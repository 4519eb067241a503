/*
 * options.h - gemmctl's command line. One table of options drives the parser and --help, and tests
 * compare the manual pages and the completions with the table.
 */
#ifndef GEMMCTL_OPTIONS_H
#define GEMMCTL_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Each command has a bit, by which the table below says which commands have an option. The names
 * after FOR_ALL stand for several commands. */
enum {
    FOR_GEMM = 1 << 0,
    FOR_BENCH = 1 << 1, /* of products */
    FOR_INFO = 1 << 2,
    FOR_METRICS = 1 << 3,
    FOR_READY = 1 << 4,
    FOR_HELP = 1 << 5,
    FOR_TENSOR_PUT = 1 << 6,
    FOR_TENSOR_GET = 1 << 7,
    FOR_TENSOR_LS = 1 << 8,
    FOR_TENSOR_RM = 1 << 9,
    FOR_JOB_STATUS = 1 << 10,
    FOR_JOB_WAIT = 1 << 11,
    FOR_JOB_RESULT = 1 << 12,
    FOR_JOB_CANCEL = 1 << 13,
    FOR_ATTENTION = 1 << 14,
    FOR_JOB_LS = 1 << 15,
    FOR_BENCH_ATTENTION = 1 << 16,
    FOR_BENCH_LADDER = 1 << 17,
    FOR_COMPLETION = 1 << 18,
    FOR_TOP = 1 << 19,
    FOR_REDUCE = 1 << 20,
    FOR_SOFTMAX = 1 << 21,
    FOR_CONV = 1 << 22,
    FOR_BENCH_CONV = 1 << 23,
    FOR_BENCH_REDUCE = 1 << 24,
    FOR_BENCH_SOFTMAX = 1 << 25,
    FOR_ALL = (1 << 26) - 1,
    FOR_ASKING = FOR_ALL & ~FOR_HELP, /* commands that send requests */
    FOR_PRODUCTS = FOR_GEMM | FOR_BENCH,
    FOR_ATTENDING = FOR_ATTENTION | FOR_BENCH_ATTENTION,
    FOR_ROWS = FOR_REDUCE | FOR_SOFTMAX,
    FOR_CONVS = FOR_CONV | FOR_BENCH_CONV,
    FOR_REDUCES = FOR_REDUCE | FOR_BENCH_REDUCE,
    FOR_SOFTMAXES = FOR_SOFTMAX | FOR_BENCH_SOFTMAX,
    FOR_COMPUTING = FOR_GEMM | FOR_ATTENTION | FOR_ROWS | FOR_CONV,
    FOR_STORING = FOR_GEMM | FOR_ROWS | FOR_CONV,
    FOR_CHECKING = FOR_GEMM | FOR_ROWS | FOR_CONV,
    FOR_LOADING =
        FOR_BENCH | FOR_BENCH_ATTENTION | FOR_BENCH_CONV | FOR_BENCH_REDUCE | FOR_BENCH_SOFTMAX,
    FOR_COMPUTED = FOR_COMPUTING | FOR_LOADING,
    FOR_READERS = FOR_COMPUTING | FOR_TENSOR_PUT,
    FOR_WRITERS = FOR_COMPUTING | FOR_TENSOR_GET | FOR_JOB_RESULT,
    FOR_JOBS = FOR_JOB_STATUS | FOR_JOB_WAIT | FOR_JOB_RESULT | FOR_JOB_CANCEL | FOR_JOB_LS,
    FOR_TENSORS = FOR_TENSOR_PUT | FOR_TENSOR_GET | FOR_TENSOR_LS | FOR_TENSOR_RM
};

/* X(ID, name, letter, argument, takers, parameter, help). `argument` names the option's value, NULL
 * for a flag; an argument with a "|" lists the values that can be chosen. `takers` are the commands
 * that have the option. `parameter` is 1 if the option is a parameter of POST /gemm or of another
 * operation's path, of the same name with underscores for dashes. A part of `argument` or `help`
 * between semicolons that begins with a command and a colon is about that command alone. */
#define OPTION_MAP(X)                                                                              \
    X(OUTPUT, "output", 'o', "FILE", FOR_WRITERS, 0,                                               \
      "file to write the result to; default -, standard output")                                   \
    X(BIAS, "bias", 0, "FILE", FOR_GEMM | FOR_CONV, 0,                                             \
      "gemm: file with a vector of n elements of C's type, which is added to every row; "          \
      "conv: file with a vector of an element of Y's type for each filter; default: no bias")      \
    X(C0, "c0", 0, "FILE", FOR_GEMM, 0,                                                            \
      "file with the matrix C0 of C's type, which --beta multiplies; default: none")               \
    X(RANDOM, "random", 0, "gemm: MxNxK; conv: SHAPE; reduce: SHAPE; softmax: SHAPE",              \
      FOR_CHECKING, 0,                                                                             \
      "gemm: multiply random matrices in place of files; conv: use a random X of this shape, "     \
      "such as 8x64x56x56, and a random W of --filters, --filter-h and --filter-w, in place "      \
      "of files; reduce: use a random X of this shape, such as 64x1000, in place of a file; "      \
      "softmax: use a random X of this shape, such as 64x1000, in place of a file; without "       \
      "--output the result is dropped")                                                            \
    X(SEED, "seed", 0, "NUMBER", FOR_CHECKING, 0, "seed of --random; default 1")                   \
    X(CHECK, "check", 0, NULL, FOR_CHECKING, 0,                                                    \
      "compare the result with one that gemmctl computes itself in f64")                           \
    X(STORE, "store", 0, "NAME", FOR_STORING, 1,                                                   \
      "keep the result on the daemon as a tensor of this name, instead of fetching the result")    \
    X(ASYNC, "async", 0, NULL, FOR_COMPUTING, 0,                                                   \
      "hand the request in as a job and print the job's id; --timeout is then the job's "          \
      "deadline")                                                                                  \
    X(M, "m", 'm', "ROWS", FOR_PRODUCTS, 1,                                                        \
      "rows of op(A) and C; gemm: files of raw bytes need --m, --n and --k; bench: default 64")    \
    X(N, "n", 'n', "gemm: COLUMNS; bench: COLUMNS; bench ladder: SIDE",                            \
      FOR_PRODUCTS | FOR_BENCH_LADDER, 1,                                                          \
      "gemm: columns of op(B) and C; bench: columns of op(B) and C, by default 64; bench "         \
      "ladder: side of the largest square, by default 4096")                                       \
    X(K, "k", 'k', "DEPTH", FOR_PRODUCTS, 1,                                                       \
      "columns of op(A) and rows of op(B); bench: default 64")                                     \
    X(OP, "op", 0, "sum|mean|max|min|norm2|logsumexp|argmax", FOR_REDUCES, 1,                      \
      "what is computed of the elements; norm2: the square root of the sum of squares; "           \
      "logsumexp: the logarithm of the sum of exponentials; argmax: the index of the first "       \
      "greatest element; default sum")                                                             \
    X(AXIS, "axis", 0, "NUMBER", FOR_REDUCES, 1,                                                   \
      "dimension that is reduced; a negative number counts from the last dimension, which is "     \
      "-1; default -1")                                                                            \
    X(KEEPDIMS, "keepdims", 0, NULL, FOR_REDUCES, 1,                                               \
      "keep the reduced dimension in the shape of Y, as 1")                                        \
    X(LOG, "log", 0, NULL, FOR_SOFTMAXES, 1, "compute the logarithm of the softmax")               \
    X(LENS, "lens", 0, "FILE", FOR_SOFTMAX, 0,                                                     \
      "file with an int32 array of the shape of X's first dimensions: how many elements of "       \
      "each row there count; in a file of raw bytes a vector, for the first dimension; "           \
      "default: all")                                                                              \
    X(CHANNELS, "channels", 0, "COUNT", FOR_CONVS, 1,                                              \
      "channels of X; conv: files of raw bytes need --channels, --height, --width, --filters, "    \
      "--filter-h and --filter-w; bench conv: default 64")                                         \
    X(HEIGHT, "height", 0, "SIZE", FOR_CONVS, 1,                                                   \
      "height of the images of X; bench conv: default 56")                                         \
    X(WIDTH, "width", 0, "SIZE", FOR_CONVS, 1, "width of the images of X; bench conv: default 56") \
    X(FILTERS, "filters", 0, "COUNT", FOR_CONVS, 1,                                                \
      "filters of W, which are the channels of Y; bench conv: default 64")                         \
    X(FILTER_H, "filter-h", 0, "SIZE", FOR_CONVS, 1,                                               \
      "height of the filters; bench conv: default 3")                                              \
    X(FILTER_W, "filter-w", 0, "SIZE", FOR_CONVS, 1,                                               \
      "width of the filters; bench conv: default 3")                                               \
    X(GROUPS, "groups", 0, "COUNT", FOR_CONVS, 1,                                                  \
      "number of groups of channels, of which each filter sees one; default 1")                    \
    X(STRIDE, "stride", 0, "S[,S]", FOR_CONVS, 1,                                                  \
      "step of the filter in both directions, or down and to the right; default 1")                \
    X(DILATION, "dilation", 0, "D[,D]", FOR_CONVS, 1,                                              \
      "distance of a filter's elements in both directions, or down and to the right; default "     \
      "1")                                                                                         \
    X(PADDING, "padding", 0, "SIDES", FOR_CONVS, 1,                                                \
      "zeros around X: same, for as many as give Y the size of X divided by the stride; one "      \
      "number for all sides; two for top and bottom, left and right; or four for top, "            \
      "bottom, left, right; default 0")                                                            \
    X(DTYPE, "dtype", 0, "f64|f32|f16|bf16|f8_e4m3|i8|i32", FOR_COMPUTED | FOR_TENSOR_PUT, 1,      \
      "gemm: type of A and B, by default the files' own, f32 for raw bytes; attention: type "      \
      "of Q, K and V, by default the files' own, f16 for raw bytes; conv: type of X and W "        \
      "(f32, f16, bf16 or i8), by default the files' own, f32 for raw bytes; reduce: type of "     \
      "X, any but f8_e4m3, by default the file's own, f32 for raw bytes; softmax: type of X "      \
      "(f64, f32, f16 or bf16), by default the file's own, f32 for raw bytes; tensor put: "        \
      "type of the elements, by default the file's own, f32 for raw bytes; bench: type of A "      \
      "and B, by default f32; bench attention: type of Q, K and V, by default f16; bench conv: "   \
      "type of X and W (f32, f16, bf16 or i8), by default f32; bench reduce: type of X, any but "  \
      "f8_e4m3, by default f32; bench softmax: type of X (f64, f32, f16 or bf16), by default f32") \
    X(SHAPE, "shape", 0, "D0[,D1...]", FOR_TENSOR_PUT | FOR_REDUCES | FOR_SOFTMAXES, 1,            \
      "tensor put: dimensions of a tensor in a file of raw bytes; reduce: dimensions of X in "     \
      "a file of raw bytes; softmax: dimensions of X in a file of raw bytes; bench reduce: "       \
      "dimensions of X, by default 1024,1024; bench softmax: dimensions of X, by default "         \
      "1024,1024")                                                                                 \
    X(EVICTABLE, "evictable", 0, NULL, FOR_TENSOR_PUT, 0,                                          \
      "let the daemon drop the tensor when another tensor needs the memory")                       \
    X(CONTIGUOUS, "contiguous", 0, NULL, FOR_TENSOR_PUT, 0,                                        \
      "keep the rows one after another on the device, as conv wants X")                            \
    X(OUT, "out", 0, "f64|f32|f16|bf16|i8|i32",                                                    \
      FOR_PRODUCTS | FOR_REDUCES | FOR_SOFTMAXES | FOR_CONVS, 1,                                   \
      "gemm: element type of C, C0 and bias, by default the type of A and B, but bf16 for "        \
      "f8_e4m3 and with --scales, and i32 for i8; bench: element type of C, by default the "       \
      "type of A and B, but bf16 for f8_e4m3, and i32 for i8; conv: element type of Y and of "     \
      "the bias, by default the type of X, but i32 for i8; reduce: element type of Y, by "         \
      "default the type of X, but i32 for argmax and for sums of integers, and f64 for means "     \
      "of integers; softmax: element type of Y, by default the type of X; bench conv: element "    \
      "type "                                                                                      \
      "of Y, by default the type of X, but i32 for i8; bench reduce: element type of Y, by "       \
      "default the "                                                                               \
      "type of X, but i32 for argmax and for sums of integers, and f64 for means of integers; "    \
      "bench "                                                                                     \
      "softmax: element type of Y, by default the type of X")                                      \
    X(PRECISION, "precision", 0,                                                                   \
      "gemm: full|tf32|f8; bench: full|tf32|f8; conv: full|tf32; bench conv: full|tf32",           \
      FOR_PRODUCTS | FOR_CONVS, 1,                                                                 \
      "tf32: the daemon may round f32 operands to TF32; gemm: f8: faster, less exact sums of "     \
      "f8_e4m3; bench: f8: faster, less exact sums of f8_e4m3; default full")                      \
    X(SCALES, "scales", 0, "none|rowcol|block", FOR_GEMM, 1,                                       \
      "scales of f8_e4m3 and i8 operands; rowcol: one for each row of op(A) and column of "        \
      "op(B); block: one for each 128 steps of k of a row of op(A) and each 128 x 128 "            \
      "elements of op(B); default none")                                                           \
    X(A_SCALE, "a-scale", 0, "FILE", FOR_GEMM, 0,                                                  \
      "file with the f32 scales of A; default: those of the one safetensors file, or of the "      \
      "tensor on the daemon")                                                                      \
    X(B_SCALE, "b-scale", 0, "FILE", FOR_GEMM, 0,                                                  \
      "file with the f32 scales of B; default: those of the one safetensors file, or of the "      \
      "tensor on the daemon")                                                                      \
    X(TRANSA, "transa", 0, NULL, FOR_PRODUCTS, 1, "A is stored transposed, k x m")                 \
    X(TRANSB, "transb", 0, NULL, FOR_PRODUCTS, 1, "B is stored transposed, n x k")                 \
    X(ALPHA, "alpha", 0, "NUMBER", FOR_PRODUCTS | FOR_CONVS, 1,                                    \
      "gemm: factor of the product op(A)*op(B); bench: factor of the product op(A)*op(B); "        \
      "conv: factor of the sums of products; bench conv: factor of the sums of products; default " \
      "1")                                                                                         \
    X(BETA, "beta", 0, "NUMBER", FOR_GEMM, 1,                                                      \
      "factor of the matrix C0; default 0, which needs no --c0")                                   \
    X(BATCH, "batch", 0, "COUNT", FOR_PRODUCTS | FOR_ATTENDING | FOR_CONVS, 1,                     \
      "gemm: number of problems of one shape, which lie one after another in each operand; "       \
      "bench: number of problems of one shape; attention: number of problems of one shape, "       \
      "which lie one after another in each operand; bench attention: number of problems of "       \
      "one shape; conv: number of images of X; bench conv: number of images of X; default 1")      \
    X(ACT, "act", 0, "none|relu|gelu|gelu_tanh|silu", FOR_PRODUCTS | FOR_CONVS, 1,                 \
      "activation function, applied last to each element of the result; default none")             \
    X(HEADS, "heads", 0, "COUNT", FOR_ATTENDING, 1,                                                \
      "heads of Q; attention: files of raw bytes need --heads, --sq and --d; bench "               \
      "attention: default 8")                                                                      \
    X(KV_HEADS, "kv-heads", 0, "COUNT", FOR_ATTENDING, 1,                                          \
      "heads of K and V, of which --heads is a multiple; default: as many as Q")                   \
    X(SQ, "sq", 0, "LENGTH", FOR_ATTENDING, 1,                                                     \
      "number of queries, the length of Q; bench attention: default 512")                          \
    X(SKV, "skv", 0, "LENGTH", FOR_ATTENDING, 1,                                                   \
      "number of keys, the length of K and V; default: the length of Q")                           \
    X(D, "d", 0, "SIZE", FOR_ATTENDING, 1,                                                         \
      "head size of Q and K, at most 256; bench attention: default 64")                            \
    X(DV, "dv", 0, "SIZE", FOR_ATTENDING, 1,                                                       \
      "head size of V and O, at most 256; default: the head size of Q")                            \
    X(LAYOUT, "layout", 0,                                                                         \
      "attention: bhsd|bshd; bench attention: bhsd|bshd; conv: nchw|nhwc; "                        \
      "bench conv: nchw|nhwc",                                                                     \
      FOR_ATTENDING | FOR_CONVS, 1,                                                                \
      "attention: order of dimensions: bhsd is batch, heads, sequence, head size, bshd is "        \
      "batch, sequence, heads, head size, default bhsd; bench attention: order of "                \
      "dimensions: bhsd is batch, heads, sequence, head size, bshd is batch, sequence, "           \
      "heads, head size, default bhsd; conv: order of the dimensions of X and Y: nchw is "         \
      "batch, channels, height, width, nhwc is batch, height, width, channels, default nchw; "     \
      "bench conv: order of the dimensions of X and Y: nchw is batch, channels, height, width, "   \
      "nhwc is batch, height, width, channels, default nchw")                                      \
    X(W_LAYOUT, "w-layout", 0, "kcrs|krsc", FOR_CONVS, 1,                                          \
      "order of the dimensions of W: kcrs is filters, channels, height, width, krsc is "           \
      "filters, height, width, channels; default kcrs")                                            \
    X(CAUSAL, "causal", 0, NULL, FOR_ATTENDING, 1,                                                 \
      "mask: a query sees no key to the right of its position; the last query is at the "          \
      "position of the last key")                                                                  \
    X(WINDOW, "window", 0, "COUNT", FOR_ATTENDING, 1,                                              \
      "mask: a query sees no key that is more than COUNT positions to its left; default: no "      \
      "such mask")                                                                                 \
    X(SCALE, "scale", 0,                                                                           \
      "attention: NUMBER; bench attention: NUMBER; softmax: NUMBER; bench softmax: NUMBER; "       \
      "tensor put: FILE; tensor get: FILE",                                                        \
      FOR_ATTENDING | FOR_SOFTMAXES | FOR_TENSOR_PUT | FOR_TENSOR_GET, 1,                          \
      "attention: factor of the scores Q*K^T, by default 1/sqrt(d); bench attention: factor "      \
      "of the scores Q*K^T, by default 1/sqrt(d); softmax: factor of X, by default 1; bench "      \
      "softmax: factor of X, by default 1; tensor "                                                \
      "put: file with the f32 scales of a tensor of f8_e4m3 or i8, by default the tensor "         \
      "'scale' of the safetensors file, if it has one; tensor get: file to write the tensor's "    \
      "scales to, by default the safetensors file of the tensor, which then holds 'tensor' and "   \
      "'scale' (files of the other formats have no place for scales)")                             \
    X(SOFTCAP, "softcap", 0, "NUMBER", FOR_ATTENDING, 1,                                           \
      "bound c of the scores, which become c*tanh(score/c); 0 or default: no bound")               \
    X(LENS_Q, "lens-q", 0, "FILE", FOR_ATTENTION, 0,                                               \
      "file with an int32 vector: the number of valid queries of each entry of the batch; "        \
      "default: all")                                                                              \
    X(LENS_KV, "lens-kv", 0, "FILE", FOR_ATTENTION, 0,                                             \
      "file with an int32 vector: the number of valid keys of each entry of the batch; "           \
      "needed exactly if --lens-q is given")                                                       \
    X(LSE, "lse", 0, "FILE", FOR_ATTENTION | FOR_JOB_RESULT, 0,                                    \
      "file to write the logarithm of each row's sum of exponentials to; default: not written")    \
    X(WITH_LSE, "with-lse", 0, NULL, FOR_ATTENTION, 0,                                             \
      "with --async: let the job compute what --lse of 'job result' fetches")                      \
    X(KERNEL, "kernel", 0, "NAME", FOR_COMPUTED, 1,                                                \
      "name of the kernel that computes, as listed by 'gemmctl info'; default: the daemon's "      \
      "choice")                                                                                    \
    X(VERIFY, "verify", 0, "none|freivalds", FOR_PRODUCTS, 1,                                      \
      "freivalds: the daemon checks the result before sending it; default none")                   \
    X(PRIORITY, "priority", 0, "0-9", FOR_COMPUTED, 1,                                             \
      "priority among the tenant's requests; 0 is the lowest, 9 the highest; default 4")           \
    X(FORMAT, "format", 0, "npy|safetensors|raw", FOR_READERS | FOR_WRITERS, 0,                    \
      "format of the files; default: by each file's name, npy if the name tells none; gemm: a "    \
      "result whose name tells none has the operands' format; attention: a result whose name "     \
      "tells none has the operands' format; conv: a result whose name tells none has the "         \
      "operands' format; reduce: a result whose name tells none has the operand's format; "        \
      "softmax: a result whose name tells none has the operand's format")                          \
    X(IN_FORMAT, "in-format", 0, "npy|safetensors|raw", FOR_COMPUTING, 0,                          \
      "format of the files that are read; default: --format")                                      \
    X(OUT_FORMAT, "out-format", 0, "npy|safetensors|raw", FOR_COMPUTING, 0,                        \
      "format of the files that are written; default: --format")                                   \
    X(CONNECTIONS, "connections", 'c', "COUNT", FOR_LOADING, 0,                                    \
      "number of connections to the daemon, at least 1; default 8")                                \
    X(IN_FLIGHT, "in-flight", 0, "COUNT", FOR_LOADING, 0,                                          \
      "number of requests that wait for an answer at any time, at least --connections; those "     \
      "that find no free connection wait in gemmctl; default: --connections")                      \
    X(DURATION, "duration", 'd', "TIME", FOR_LOADING, 0, "time to measure; default 5s")            \
    X(REQUESTS, "requests", 0, "COUNT", FOR_LOADING, 0,                                            \
      "number of requests to measure; 0 or default: as many as --duration allows")                 \
    X(ONCE, "once", 0, NULL, FOR_TOP, 0,                                                           \
      "print one report, of one --interval, and exit; so does top without a terminal")             \
    X(INTERVAL, "interval", 0, "TIME", FOR_TOP, 0,                                                 \
      "time between two looks at the daemon, over which rates are measured; default 1s")           \
    X(TIMING, "timing", 0, NULL, FOR_COMPUTING | FOR_JOB_RESULT, 0,                                \
      "print how long each stage of the request took in the daemon, in ms")                        \
    X(JSON, "json", 0, NULL, FOR_ASKING & ~FOR_COMPLETION, 0,                                      \
      "print the result's description, or the error, as JSON on standard output")                  \
    X(SHM, "shm", 0, NULL, FOR_COMPUTED, 0,                                                        \
      "pass operands and results through memory shared with the daemon, whatever their size, "     \
      "or fail; needs --url unix:PATH")                                                            \
    X(NO_SHM, "no-shm", 0, NULL, FOR_COMPUTED, 0,                                                  \
      "pass operands and results through the socket; default: through shared memory if the "       \
      "daemon takes it and the operands are large")                                                \
    X(URL, "url", 'u', "URL", FOR_ASKING, 0,                                                       \
      "address of the daemon: http://HOST:PORT, https://HOST:PORT, HOST:PORT or unix:PATH; "       \
      "default: the environment's GEMMD_URL, else that of the context, else "                      \
      "http://127.0.0.1:8080")                                                                     \
    X(CONTEXT, "context", 0, "NAME", FOR_ASKING, 0,                                                \
      "context of ~/.config/gemmd/config, which names the daemon's address, the token's file "     \
      "and the files of certificates; default: the environment's GEMMD_CONTEXT, else the "         \
      "context 'default' if there is one")                                                         \
    X(TOKEN_FILE, "token-file", 0, "FILE", FOR_ASKING, 0,                                          \
      "file whose first line is the bearer token for the daemon; default: the environment's "      \
      "GEMMD_TOKEN")                                                                               \
    X(CA_FILE, "ca-file", 0, "FILE", FOR_ASKING, 0,                                                \
      "PEM file with the certificates to trust for https; default: the environment's "             \
      "GEMMD_CA_FILE, else the system's")                                                          \
    X(CERT_FILE, "cert-file", 0, "FILE", FOR_ASKING, 0,                                            \
      "PEM file of the client's certificate for https; default: the environment's "                \
      "GEMMD_CERT_FILE, else none")                                                                \
    X(KEY_FILE, "key-file", 0, "FILE", FOR_ASKING, 0,                                              \
      "PEM file of the private key of --cert-file; default: the environment's "                    \
      "GEMMD_KEY_FILE, else the certificate's file")                                               \
    X(TRACEPARENT, "traceparent", 0, "TRACE", FOR_ASKING, 0,                                       \
      "traceparent (W3C Trace Context) to send, by which the daemon's log and spans belong "       \
      "to the caller's trace; default: the environment's TRACEPARENT if it is valid, else "        \
      "none")                                                                                      \
    X(CHECK_DIGEST, "check-digest", 0, NULL, FOR_ASKING, 0,                                        \
      "have the daemon send the SHA-256 of each answer, and compare it with the answer")           \
    X(TIMEOUT, "timeout", 't', "TIME", FOR_ASKING, 0,                                              \
      "longest time of a request with all its repeats, such as 30 (seconds), 30s, 500ms or "       \
      "2m; default 5m, for top 5s")                                                                \
    X(RETRIES, "retries", 0, "COUNT", FOR_ASKING, 0,                                               \
      "how often to repeat a request that was refused for the moment (429, 503) or lost its "      \
      "connection; 0: never; default 4, for bench, top and ready 0")                               \
    X(QUIET, "quiet", 'q', NULL, FOR_ALL, 0, "print nothing but results and errors")               \
    X(NO_COLOR, "no-color", 0, NULL, FOR_ALL, 0,                                                   \
      "print no colours; the environment's NO_COLOR, or TERM=dumb, does the same")                 \
    X(HELP, "help", 'h', NULL, FOR_ALL, 0,                                                         \
      "print help; after a command, the help of that command")                                     \
    X(VERSION, "version", 0, NULL, FOR_ALL, 0, "print the version of gemmctl")

enum option_id {
#define X(id, name, letter, argument, takers, parameter, help) OPTION_##id,
    OPTION_MAP(X)
#undef X
        OPTION_COUNT
};

struct option {
    const char *name;
    const char *argument;
    const char *help;
    unsigned takers;
    char letter; /* 0: none */
    bool parameter;
};
extern const struct option options[OPTION_COUNT];

struct context;
struct command {
    const char *name; /* one word, or two: "tensor put"; a first word alone may be one too */
    unsigned taker;   /* the command's bit, FOR_... */
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

/* Writes the parts of an argument or a help of the table that are about `command`, or about every
 * command, to `out`, and returns `out`. `command` may be NULL: only parts about every command.
 * `commands` ends with an entry without a name. */
const char *option_text(const struct command *commands, const struct command *command,
                        const char *text, char *out, size_t room);

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

#endif
