/* The kernels of attention_wgmma.cuh for f16. */
#include "kernels/cuda/sm90/attention_wgmma_table.cuh"

ATTENTION_TABLE(f16, F16)
