/*
 * tile_name.h - what the name of a tile says of a kernel (kernels/experiments/README.md has the
 * names): all that the model of the choice of tiles reads.
 */
#ifndef TESTS_BENCH_TILE_NAME_H
#define TESTS_BENCH_TILE_NAME_H

#include "kernels/cuda/sm90/sm90.h"

/* Sets the members of a kernel that the model reads (kernels/cuda/sm90/gemm/model.h). `name` has no
 * type, such as 128x256_1x2. False: this is not the name of a tile of wgmma. */
bool bench_tile_of(const char *name, enum gemmd_dtype dtype, struct sm90_kernel *kernel);

#endif
