/*
 * operand.h - the layout of operands (and results) for the kernels of tensor cores: planned from
 * the sizes of a problem, then copied or converted at the speed of memory.
 *
 * All functions but operand_move are pure. A kernel decides which form an operand needs.
 */
#ifndef KERNELS_CUDA_MOVE_OPERAND_H
#define KERNELS_CUDA_MOVE_OPERAND_H

#include "kernels/cuda/move/move.h"

enum operand_way {
    OPERAND_STAYS,
    OPERAND_REALIGNED,
    OPERAND_WIDENED,    /* f8 to f16 */
    OPERAND_TRANSPOSED, /* so that it lies along k; elements of 1 or 4 bytes */
    OPERAND_IN_PARTS,   /* f32 to three parts of bf16 */
};

struct operand {
    enum operand_way way;
    struct realign_job job; /* as stored; where it goes is filled in later */
    uint64_t bytes;         /* of the workspace */
};

/* Whether all rows start at multiples of 16 bytes, if the first does. */
bool operand_is_aligned(uint64_t ld, uint64_t stride, uint64_t batch, enum gemmd_dtype dtype);

/* Room for `count` matrices of `lines` by `width` in the workspace, in whole pieces of 256 bytes.
 * False: it overflows. */
bool operand_place(uint64_t lines, uint64_t width, uint64_t count, enum gemmd_dtype dtype,
                   uint64_t *ld, uint64_t *stride, uint64_t *bytes);

/* Both operands of a problem, of which a->way and b->way are known. *planned, a copy of the
 * problem, becomes the problem of what they become, but for its pointers and type. False: the
 * workspace overflows. */
bool operands_plan(const struct gemm_problem *p, struct gemm_problem *planned, struct operand *a,
                   struct operand *b);

/* Takes the operand's part of the workspace, if it is to move, as where it goes and as *data;
 * returns what is left of it. */
char *operand_settle(struct operand *operand, char *workspace, const void **data);

enum gemmd_error operand_move(cudaStream_t stream, const struct operand *operand);

#endif
