/*
 * operands.h - the operands of an operation, described as data, and where they lie in a body.
 *
 * An operation (a product, an attention) has one table of its operands: what they are called, which
 * of them a request's body holds, and which type and shape the request gives each. The layout of a
 * raw body follows from the table, as does finding the arrays of the other formats. `request` is
 * the operation's own struct. Any thread.
 */
#ifndef PROTO_OPERANDS_H
#define PROTO_OPERANDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/body_front.h"
#include "proto/error.h"
#include "proto/tensor.h"

enum { OPERAND_TABLE_MAX = 5 };

struct operand_table {
    const char *path;         /* "/gemm" */
    const char *names;        /* of all operands, for sentences */
    const char *npy_scalar;   /* the end of the sentence about an .npy array that is a scalar, */
    const char *named_scalar; /* ... and about a tensor of a safetensors body */
    uint32_t count;
    struct {
        const char *name;          /* in a safetensors body: "c" */
        const char *title;         /* in sentences: "C0" */
        const char *memory_name;   /* in Gemmd-Memory: "c0"; NULL: it comes in the body only */
    } operands[OPERAND_TABLE_MAX]; /* in the order of a raw body */
    /* Whether a body has to hold the operand. */
    bool (*is_wanted)(const void *request, uint32_t operand);
    /* The operand's type and shape as the request has them, without data. False on overflow. */
    bool (*shape)(const void *request, uint32_t operand, struct tensor *tensor);
    /* Writes the sizes that the operands follow from, for sentences: "m=2 n=3 k=4 in f32". */
    void (*describe)(const void *request, char *out, size_t room);
};

/* Whether a tensor is an operand that is there: no operand is a scalar. */
bool operand_is_there(const struct tensor *tensor);

/* Fills in table->count tensors without data: what a raw body would hold if nothing were elsewhere
 * (rank 0: not there). False on overflow. */
bool operand_shapes(const struct operand_table *table, const void *request, struct tensor *tensors);

/* Where the operands lie in a raw body. A layout is computed once a request is settled. */
struct operand_layout {
    struct tensor tensors[OPERAND_TABLE_MAX]; /* as operand_shapes has them */
    uint64_t offsets[OPERAND_TABLE_MAX];      /* of those that the body holds */
    uint32_t count;
    uint32_t elsewhere; /* bit set of the operands that the body leaves out */
    uint32_t in_body;   /* bit set of the operands that the body holds */
    uint64_t bytes;     /* of the body */
};

/* `elsewhere`: as in the layout. False on overflow: of an operand's size, or of all together. */
bool operand_layout_compute(struct operand_layout *layout, const struct operand_table *table,
                            const void *request, uint32_t elsewhere);
/* The same, with GEMMD_ERR_TOO_LARGE on overflow. */
enum gemmd_error operand_layout_settle(struct operand_layout *layout,
                                       const struct operand_table *table, const void *request,
                                       uint32_t elsewhere, struct fault *fault);
/* Leaves one more operand out of the body; those behind it move forward. */
void operand_layout_leave_out(struct operand_layout *layout, uint32_t operand);
/* GEMMD_ERR_MALFORMED, with both lengths, if a body of `bytes` is not as long as the layout. */
enum gemmd_error operand_layout_check(const struct operand_layout *layout,
                                      const struct operand_table *table, const void *request,
                                      uint64_t bytes, struct fault *fault);
/* Checks the length, and fills in layout->count tensors: views onto the body. Those elsewhere have
 * no data. */
enum gemmd_error operand_layout_bind(const struct operand_layout *layout,
                                     const struct operand_table *table, const void *request,
                                     const void *body, uint64_t bytes, struct tensor *tensors,
                                     struct fault *fault);

/* Reads the .npy array at `*at` as that operand, and moves past the array. `carrier`: npy.h. An
 * error's sentence names the operand. GEMMD_ERR_CONFLICT: there is too little of the body yet. */
enum gemmd_error operand_read_npy(const struct operand_table *table, uint32_t operand,
                                  struct body_front *front, uint64_t *at, enum gemmd_dtype carrier,
                                  struct tensor *tensor, struct fault *fault);
/* Reads the tensors of a safetensors body into those of the table that have their names; the others
 * stay as they are. */
enum gemmd_error operand_read_safetensors(const struct operand_table *table,
                                          struct body_front *front, struct tensor *tensors,
                                          struct fault *fault);

/* One size of a request, as the shape of the array `title` says it: takes it if it is not known (0)
 * and holds it against what is. `source`: what said it before, for the sentence. */
enum gemmd_error operand_settle_size(const char *name, uint64_t *size, uint64_t value,
                                     const char *title, const char *source, struct fault *fault);

#endif
