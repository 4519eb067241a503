/*
 * options.h - gemmctl's command line: one table that makes parsing and --help, and that the man
 * page and the completions are tested against.
 */
#ifndef GEMMCTL_OPTIONS_H
#define GEMMCTL_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Bits of the commands that take an option. */
enum {
    FOR_GEMM = 1,
    FOR_BENCH = 2,
    FOR_INFO = 4,
    FOR_METRICS = 8,
    FOR_READY = 16,
    FOR_HELP = 32,
    FOR_TENSOR_PUT = 64,
    FOR_TENSOR_GET = 128,
    FOR_TENSOR_LS = 256,
    FOR_TENSOR_RM = 512,
    FOR_JOB_STATUS = 1024,
    FOR_JOB_WAIT = 2048,
    FOR_JOB_RESULT = 4096,
    FOR_JOB_CANCEL = 8192,
    FOR_ATTENTION = 16384,
    FOR_PRODUCTS = FOR_GEMM | FOR_BENCH,
    FOR_ATTENDING = FOR_ATTENTION | FOR_BENCH,
    FOR_COMPUTING = FOR_GEMM | FOR_ATTENTION,
    FOR_COMPUTED = FOR_COMPUTING | FOR_BENCH,
    FOR_READERS = FOR_COMPUTING | FOR_TENSOR_PUT,
    FOR_WRITERS = FOR_COMPUTING | FOR_TENSOR_GET | FOR_JOB_RESULT,
    FOR_JOBS = FOR_JOB_STATUS | FOR_JOB_WAIT | FOR_JOB_RESULT | FOR_JOB_CANCEL,
    FOR_TENSORS = FOR_TENSOR_PUT | FOR_TENSOR_GET | FOR_TENSOR_LS | FOR_TENSOR_RM,
    FOR_ALL = 32767
};

/* X(ID, name, letter, argument, takers, parameter, help): `argument` NULL for a flag; `parameter`
 * 1 if it is one of POST /gemm or /attention, under the same name with underscores for dashes.
 * Arguments with a "|" are the choices. */
#define OPTION_MAP(X)                                                                              \
    X(OUTPUT, "output", 'o', "FILE", FOR_WRITERS, 0,                                               \
      "where the result goes; - for standard output (default)")                                    \
    X(BIAS, "bias", 0, "FILE", FOR_GEMM, 0, "a vector of length n that is added to every row")     \
    X(C0, "c0", 0, "FILE", FOR_GEMM, 0, "the matrix that beta multiplies")                         \
    X(STORE, "store", 0, "NAME", FOR_GEMM, 1,                                                      \
      "keep C on the daemon as a tensor of this name; it is not fetched")                          \
    X(ASYNC, "async", 0, NULL, FOR_COMPUTING, 0,                                                   \
      "hand it in as a job and print its id; --timeout is then the job's")                         \
    X(M, "m", 'm', "ROWS", FOR_PRODUCTS, 1, "rows of op(A) and C; raw files need m, n and k")      \
    X(N, "n", 'n', "COLUMNS", FOR_PRODUCTS, 1, "columns of op(B) and C")                           \
    X(K, "k", 'k', "DEPTH", FOR_PRODUCTS, 1, "columns of op(A), rows of op(B)")                    \
    X(DTYPE, "dtype", 0, "f64|f32|f16|bf16|f8_e4m3|i8|i32", FOR_COMPUTED | FOR_TENSOR_PUT, 1,      \
      "type of the operands, or of the tensor; default: the files' own, else f32, for attention "  \
      "f16")                                                                                       \
    X(SHAPE, "shape", 0, "D0[,D1...]", FOR_TENSOR_PUT, 0, "shape of a raw file")                   \
    X(EVICTABLE, "evictable", 0, NULL, FOR_TENSOR_PUT, 0,                                          \
      "the daemon may drop the tensor when it needs the room")                                     \
    X(OUT, "out", 0, "f64|f32|f16|bf16|i32", FOR_PRODUCTS, 1,                                      \
      "type of C, C0 and bias; default: dtype (bf16 for f8_e4m3, i32 for i8)")                     \
    X(PRECISION, "precision", 0, "full|tf32", FOR_PRODUCTS, 1,                                     \
      "tf32 lets f32 operands be rounded; default full")                                           \
    X(TRANSA, "transa", 0, NULL, FOR_PRODUCTS, 1, "A is stored transposed")                        \
    X(TRANSB, "transb", 0, NULL, FOR_PRODUCTS, 1, "B is stored transposed")                        \
    X(ALPHA, "alpha", 0, "NUMBER", FOR_PRODUCTS, 1, "factor of the product; default 1")            \
    X(BETA, "beta", 0, "NUMBER", FOR_GEMM, 1, "factor of C0; default 0")                           \
    X(BATCH, "batch", 0, "COUNT", FOR_COMPUTED, 1, "problems of one shape, one after another")     \
    X(ACT, "act", 0, "none|relu|gelu|gelu_tanh|silu", FOR_PRODUCTS, 1,                             \
      "activation, applied last; default none")                                                    \
    X(HEADS, "heads", 0, "COUNT", FOR_ATTENDING, 1, "heads of Q; raw files need heads, sq and d")  \
    X(KV_HEADS, "kv-heads", 0, "COUNT", FOR_ATTENDING, 1, "heads of K and V; default: as Q")       \
    X(SQ, "sq", 0, "LENGTH", FOR_ATTENDING, 1, "length of Q")                                      \
    X(SKV, "skv", 0, "LENGTH", FOR_ATTENDING, 1, "length of K and V; default: as Q")               \
    X(D, "d", 0, "SIZE", FOR_ATTENDING, 1, "head size of Q and K")                                 \
    X(DV, "dv", 0, "SIZE", FOR_ATTENDING, 1, "head size of V and the result; default: as Q")       \
    X(LAYOUT, "layout", 0, "bhsd|bshd", FOR_ATTENDING, 1,                                          \
      "heads before or after the sequence; default bhsd")                                          \
    X(CAUSAL, "causal", 0, NULL, FOR_ATTENDING, 1,                                                 \
      "a query sees no key to its right; the last query stands at the last key")                   \
    X(WINDOW, "window", 0, "COUNT", FOR_ATTENDING, 1,                                              \
      "a query sees no key further left than this")                                                \
    X(SCALE, "scale", 0, "NUMBER", FOR_ATTENDING, 1, "factor of the scores; default 1/sqrt(d)")    \
    X(SOFTCAP, "softcap", 0, "NUMBER", FOR_ATTENDING, 1,                                           \
      "bound of the scores, by tanh; default none")                                                \
    X(LENS_Q, "lens-q", 0, "FILE", FOR_ATTENTION, 0,                                               \
      "int32 vector of the valid length of each entry of Q")                                       \
    X(LENS_KV, "lens-kv", 0, "FILE", FOR_ATTENTION, 0, "the same of K and V; both or neither")     \
    X(LSE, "lse", 0, "FILE", FOR_ATTENTION | FOR_JOB_RESULT, 0,                                    \
      "where the logarithm of each row's sum of exponentials goes")                                \
    X(WITH_LSE, "with-lse", 0, NULL, FOR_ATTENTION, 0,                                             \
      "with --async: compute lse too, for --lse of 'job result'")                                  \
    X(KERNEL, "kernel", 0, "NAME", FOR_COMPUTED, 1, "kernel to use, from gemmctl info")            \
    X(VERIFY, "verify", 0, "none|freivalds", FOR_PRODUCTS, 1,                                      \
      "have the daemon check the result; default none")                                            \
    X(PRIORITY, "priority", 0, "0-9", FOR_COMPUTED, 1, "0 is the lowest; default 4")               \
    X(FORMAT, "format", 0, "npy|safetensors|raw", FOR_READERS | FOR_WRITERS, 0,                    \
      "of all files; default: by their names, npy for pipes")                                      \
    X(IN_FORMAT, "in-format", 0, "npy|safetensors|raw", FOR_COMPUTING, 0,                          \
      "of the files that are read")                                                                \
    X(OUT_FORMAT, "out-format", 0, "npy|safetensors|raw", FOR_COMPUTING, 0, "of the output")       \
    X(CONNECTIONS, "connections", 'c', "COUNT", FOR_BENCH, 0, "connections; default 8")            \
    X(IN_FLIGHT, "in-flight", 0, "COUNT", FOR_BENCH, 0,                                            \
      "requests at once, of which those beyond the connections wait in the client; default: as "   \
      "many as connections")                                                                       \
    X(DURATION, "duration", 'd', "TIME", FOR_BENCH, 0, "how long to measure; default 5s")          \
    X(REQUESTS, "requests", 0, "COUNT", FOR_BENCH, 0, "how many to measure, instead of a time")    \
    X(TIMING, "timing", 0, NULL, FOR_COMPUTING | FOR_JOB_RESULT, 0,                                \
      "print how long each stage took in the daemon")                                              \
    X(JSON, "json", 0, NULL, FOR_COMPUTED | FOR_TENSORS | FOR_JOBS | FOR_INFO, 0,                  \
      "print JSON on standard output")                                                             \
    X(SHM, "shm", 0, NULL, FOR_COMPUTING | FOR_BENCH, 0,                                           \
      "through memory shared with the daemon, whatever the size, or fail; needs unix:PATH")        \
    X(NO_SHM, "no-shm", 0, NULL, FOR_COMPUTING | FOR_BENCH, 0,                                     \
      "never so; default: where the daemon takes it and it is worth it")                           \
    X(URL, "url", 'u', "URL", FOR_ALL, 0,                                                          \
      "http://HOST:PORT, https://HOST:PORT or unix:PATH; default: GEMMD_URL, else "                \
      "http://127.0.0.1:8080")                                                                     \
    X(TOKEN_FILE, "token-file", 0, "FILE", FOR_ALL, 0,                                             \
      "file with the token to show to the daemon; default: GEMMD_TOKEN")                           \
    X(CA_FILE, "ca-file", 0, "FILE", FOR_ALL, 0, "certificates to trust for https")                \
    X(TIMEOUT, "timeout", 't', "TIME", FOR_ALL, 0,                                                 \
      "for a request with all its repeats: 30, 30s, 500ms, 2m; default 5m")                        \
    X(RETRIES, "retries", 0, "COUNT", FOR_ALL, 0,                                                  \
      "repeats after a refusal or a lost connection; default 4, 0 in bench")                       \
    X(QUIET, "quiet", 'q', NULL, FOR_ALL, 0, "print nothing but results and errors")               \
    X(NO_COLOR, "no-color", 0, NULL, FOR_ALL, 0, "no colours; also NO_COLOR, TERM=dumb")           \
    X(HELP, "help", 'h', NULL, FOR_ALL, 0, "print help, also of a command")                        \
    X(VERSION, "version", 0, NULL, FOR_ALL, 0, "print the version")

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
    const char *name; /* one word, or two: "tensor put" */
    unsigned taker;   /* its bit */
    uint32_t operands_min, operands_max;
    const char *usage; /* after "gemmctl NAME " */
    const char *summary;
    const char *examples; /* lines, the comment first */
    int (*run)(const struct context *context);
};

enum { OPERANDS_MAX = 4, PROBLEM_MAX = 256 };

/* A command line taken apart; all strings are borrowed from argv. */
struct arguments {
    const struct command *command;      /* NULL: none was given */
    const char *group;                  /* its first word, where there are two; else NULL */
    const char *values[OPTION_COUNT];   /* NULL: not given; "1" or "0" for flags */
    const char *operands[OPERANDS_MAX]; /* what is neither command nor option */
    uint32_t operand_count;
};

/* `commands` ends with an entry without a name. False, with a sentence in `problem`, if the command
 * line is wrong. --help and --version count before anything else is missed. */
bool arguments_parse(struct arguments *arguments, int argc, char *const argv[],
                     const struct command *commands, char problem[PROBLEM_MAX]);

/* Whether the command's first word of two is `group`. */
bool command_is_of(const struct command *command, const char *group);

/* Values of options; `otherwise` if not given. False with a sentence if they cannot be read. */
bool option_count(const struct arguments *arguments, enum option_id id, uint32_t otherwise,
                  uint32_t *out, char problem[PROBLEM_MAX]);
/* "30", "30s", "1.5s", "500ms", "2m" in milliseconds, at least 1. */
bool option_time_ms(const struct arguments *arguments, enum option_id id, uint32_t otherwise,
                    uint32_t *out, char problem[PROBLEM_MAX]);
bool option_flag(const struct arguments *arguments, enum option_id id);

#endif
