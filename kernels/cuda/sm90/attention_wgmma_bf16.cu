/* The kernels of attention_wgmma.cuh for bf16. */
#include "kernels/cuda/sm90/attention_wgmma_table.cuh"

/* Three consumers, as FlashAttention-3 has them for narrow heads: to be measured. */
ATTENTION_TABLE(bf16, BF16,
                ATTENTION_ENTRY(bf16, BF16, 64, 128, 3, 192, true, "", false, false, false), )
