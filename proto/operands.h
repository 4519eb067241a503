/*
 * operands.h - the table of an operation's operands, and the location of each operand in a body.
 *
 * An operation (a product, an attention) has one table of operands. The table gives the names of
 * the operands, decides which operands the body of a request has to hold, and gives the type and
 * shape of each operand. The layout of a raw body is computed from the table; the readers of .npy
 * and safetensors bodies use the names of the table.
 *
 * `request` is always a pointer to the operation's own struct, such as struct gemm_request. An
 * operand is identified by its index in the table; in a bit set, operand i is bit 1 << i. Operands
 * that are bound are views onto the caller's body. The functions keep no state and may be called
 * from any thread.
 */
#ifndef PROTO_OPERANDS_H
#define PROTO_OPERANDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/body_front.h"
#include "proto/error.h"
#include "proto/npy.h"
#include "proto/tensor.h"

enum { OPERAND_TABLE_MAX = 8 };

/* What a body of a wrong length may have been meant to be, for the end of the message about it:
 * "are the operands f64, or is batch=2 missing". Empty at first. */
struct operand_guess {
    char text[100];
};

struct operand_table {
    const char *path;         /* "/gemm" */
    const char *names;        /* names of all operands, for messages */
    const char *npy_scalar;   /* end of the message about a scalar in a .npy body */
    const char *named_scalar; /* end of the message about a scalar in a safetensors body */
    /* End of the message about a .npy body with more arrays than are wanted (operand_bind_front):
     * " (bias=1 adds a vector after W)", or "". */
    const char *npy_more;
    uint32_t count;
    struct {
        const char *name;        /* name in a safetensors body: "c" */
        const char *title;       /* name in messages: "C0" */
        const char *memory_name; /* name in Gemmd-Memory: "c0"; NULL: never in shared memory */
        /* The field of the error if the operand is missing or unexpected: "beta"; NULL: none. */
        const char *field;
    } operands[OPERAND_TABLE_MAX]; /* in the order in which a raw body holds the operands */
    /* Returns whether the body of the request has to hold the operand. */
    bool (*is_wanted)(const void *request, uint32_t operand);
    /* Sets `tensor` to the type and shape that the request gives the operand, without data. False
     * if the operand's size in bytes overflows. */
    bool (*shape)(const void *request, uint32_t operand, struct tensor *tensor);
    /* Writes the sizes of the request, for messages: "m=2 n=3 k=4 in f32". `room` is the size of
     * `out` in bytes. */
    void (*describe)(const void *request, char *out, size_t room);
    /* Adds to `guess` what the request may have meant, given a body of `bytes` bytes, which is not
     * the length of the request's layout. The body leaves out the operands in `elsewhere`. */
    void (*guess)(const void *request, uint32_t elsewhere, uint64_t bytes,
                  struct operand_guess *guess);
};

/* Adds a guess of the form "are the operands f64", unless the message has no room for the guess. */
void operand_guess_add(struct operand_guess *guess, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Adds the types for which `fits` returns true, as in "are the operands f16 or bf16". `fits` says
 * whether the request would have a body of the length of the guess if its type were `dtype`. */
void operand_guess_dtypes(struct operand_guess *guess, enum gemmd_dtype than,
                          bool (*fits)(void *context, enum gemmd_dtype dtype), void *context);

/* Returns whether `tensor` holds an operand. No operand is a scalar, so that rank 0 marks an absent
 * operand. */
bool operand_is_there(const struct tensor *tensor);

/* Sets table->count tensors to the types and shapes of the operands of a raw body, as if the body
 * held every operand that table->is_wanted names. No tensor has data; an operand that is not wanted
 * has rank 0. False if the size of an operand overflows. */
bool operand_shapes(const struct operand_table *table, const void *request, struct tensor *tensors);

/* The location of each operand in a raw body. A layout is computed when all types and sizes of the
 * request are known. */
struct operand_layout {
    struct tensor tensors[OPERAND_TABLE_MAX]; /* types and shapes, from operand_shapes */
    uint64_t offsets[OPERAND_TABLE_MAX];      /* bytes from the start of the body */
    uint32_t count;                           /* number of operands in the table */
    uint32_t elsewhere;                       /* bit set of the operands that the body leaves out */
    uint32_t in_body;                         /* bit set of the operands that the body holds */
    uint64_t bytes;                           /* length of the body */
};

/* Computes the layout of a raw body that leaves out the operands in the bit set `elsewhere`. False
 * if the size of an operand, or the sum of the sizes, overflows. */
bool operand_layout_compute(struct operand_layout *layout, const struct operand_table *table,
                            const void *request, uint32_t elsewhere);
/* As operand_layout_compute, but returns GEMMD_ERR_TOO_LARGE on overflow. */
enum gemmd_error operand_layout_settle(struct operand_layout *layout,
                                       const struct operand_table *table, const void *request,
                                       uint32_t elsewhere, struct fault *fault);
/* Leaves one more operand out of the body. The offsets of the operands after that operand, and the
 * length of the body, become smaller. */
void operand_layout_leave_out(struct operand_layout *layout, uint32_t operand);
/* Checks the length of a body. GEMMD_ERR_MALFORMED, with both lengths in the message, if `bytes` is
 * not the length that the layout gives. If another type, a missing operand or the like explains the
 * length exactly, the message asks whether that was meant. */
enum gemmd_error operand_layout_check(const struct operand_layout *layout,
                                      const struct operand_table *table, const void *request,
                                      uint64_t bytes, struct fault *fault);
/* Checks the length of a body as operand_layout_check, and sets layout->count tensors to views onto
 * the body. The tensor of an operand that the body leaves out has no data. */
enum gemmd_error operand_layout_bind(const struct operand_layout *layout,
                                     const struct operand_table *table, const void *request,
                                     const void *body, uint64_t bytes, struct tensor *tensors,
                                     struct fault *fault);

/* Reads the .npy array at offset `*at` of the body as the given operand, and sets `*at` to the end
 * of the array, and `*before` to the array. npy.h describes `carrier`. An error's message names the
 * operand, or the one before it if that one is short of bytes. Zeroed, `*before` is no array.
 * GEMMD_ERR_CONFLICT if the array's header has not been received completely. */
enum gemmd_error operand_read_npy(const struct operand_table *table, uint32_t operand,
                                  struct npy_before *before, struct body_front *front, uint64_t *at,
                                  enum gemmd_dtype carrier, struct tensor *tensor,
                                  struct fault *fault);
/* Reads a safetensors body. Each tensor of the body is stored in `tensors` at the index of the
 * operand with the tensor's name; the other elements of `tensors` are not changed.
 * GEMMD_ERR_MALFORMED if no operand has the name of a tensor. GEMMD_ERR_CONFLICT if the body's
 * header has not been received completely. */
enum gemmd_error operand_read_safetensors(const struct operand_table *table,
                                          struct body_front *front, struct tensor *tensors,
                                          struct fault *fault);

/* Finds the operands of a body of any format, of which the front has been received: `tensors` has
 * an element for each operand of the table. In a raw body, the operands in `elsewhere` have a shape
 * but no data. A .npy body has the arrays that table->is_wanted names, in the order of the table,
 * and nothing after them. A safetensors body may lack operands that are wanted, and may have others
 * of the table. The other errors are those of operand_layout_bind, operand_read_npy and
 * operand_read_safetensors. */
enum gemmd_error operand_bind_front(const struct operand_table *table, const void *request,
                                    uint32_t elsewhere, enum format format,
                                    struct body_front *front, enum gemmd_dtype carrier,
                                    struct tensor *tensors, struct fault *fault);

/* Returns the first operand that is there and not wanted, or wanted and not there, of
 * table->count tensors; table->count: there is none. */
uint32_t operand_mismatch(const struct operand_table *table, const void *request,
                          const struct tensor *tensors);
/* Checks that the tensors of a safetensors body are those that table->is_wanted names.
 * GEMMD_ERR_MALFORMED. */
enum gemmd_error operand_check_named(const struct operand_table *table, const void *request,
                                     const struct tensor *tensors, struct fault *fault);

/* Compares a size of the request with `value`, the same size in the shape of the array `title`.
 * If `*size` is not known yet (0), `*size` becomes `value`. GEMMD_ERR_MALFORMED if the two differ
 * or `value` is not from 1 to GEMM_DIM_MAX. `name` is the name of the size; `source` says in the
 * message where the known size came from. */
enum gemmd_error operand_settle_size(const char *name, uint64_t *size, uint64_t value,
                                     const char *title, const char *source, struct fault *fault);

#endif
