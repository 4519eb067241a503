/*
 * operand.h - brings operands (and results) of products into the layout that the kernels of tensor
 * cores need. A kernel decides which form each operand needs. The layout in the workspace is
 * planned from the sizes of the problem (operands_plan); when the problem runs, each operand gets
 * its place in the workspace (operand_settle) and is copied or converted (operand_move).
 *
 * All functions but operand_move are pure, and any thread may call them.
 */
#ifndef KERNELS_CUDA_MOVE_OPERAND_H
#define KERNELS_CUDA_MOVE_OPERAND_H

#include "kernels/cuda/move/move.h"

/* The form in which a kernel needs an operand. */
enum operand_form {
    OPERAND_IN_PLACE,   /* as stored; nothing is moved */
    OPERAND_REALIGNED,  /* copied, with rows that start at multiples of 16 bytes */
    OPERAND_WIDENED,    /* f8 converted to f16 */
    OPERAND_TRANSPOSED, /* transposed to lie along k; elements of 1 or 4 bytes */
    OPERAND_IN_PARTS,   /* f32 decomposed into three parts of bf16 */
};

struct operand {
    enum operand_form form;
    struct realign_job job; /* the operand as stored; operand_settle sets the destination */
    uint64_t bytes;         /* bytes of the workspace that the operand takes */
};

/* Whether all rows start at multiples of 16 bytes if the first row does. */
bool operand_is_aligned(uint64_t ld, uint64_t stride, uint64_t batch, enum gemmd_dtype dtype);

/* The layout of `count` matrices of `lines` by `width` elements in the workspace. *bytes is a
 * multiple of 256. False: the size overflows. */
bool operand_place(uint64_t lines, uint64_t width, uint64_t count, enum gemmd_dtype dtype,
                   uint64_t *ld, uint64_t *stride, uint64_t *bytes);

/* Plans both operands of a problem; a->form and b->form are set by the caller. *planned is a copy
 * of the problem, which gets the layout of the converted operands; its pointers and type do not
 * change. False: the size of the workspace overflows. */
bool operands_plan(const struct gemm_problem *p, struct gemm_problem *planned, struct operand *a,
                   struct operand *b);

/* Assigns the operand its part of the workspace, as its destination and as *data, unless the
 * operand stays in place. Returns the rest of the workspace. */
char *operand_settle(struct operand *operand, char *workspace, const void **data);

/* Enqueues the copy or conversion of the operand, if it has any. Returns the error of the launch.
 */
enum gemmd_error operand_move(cudaStream_t stream, const struct operand *operand);

#endif
