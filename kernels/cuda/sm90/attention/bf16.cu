/* The kernels of flash_wgmma.cuh for bf16. */
#include "kernels/cuda/sm90/attention/table.cuh"

ATTENTION_TABLE(bf16, BF16)
