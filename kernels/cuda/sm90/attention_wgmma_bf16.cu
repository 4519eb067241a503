/* The kernels of attention_wgmma.cuh for bf16. */
#include "kernels/cuda/sm90/attention_wgmma_table.cuh"

ATTENTION_TABLE(bf16, BF16)
