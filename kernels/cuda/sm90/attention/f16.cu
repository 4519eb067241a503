/* The kernels of flash_wgmma.cuh for f16. */
#include "kernels/cuda/sm90/attention/table.cuh"

ATTENTION_TABLE(f16, F16)
