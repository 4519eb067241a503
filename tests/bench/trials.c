/* `gemmd-bench trials`: the kernels on trial next to those that serve, on the shapes they are for.
 */
#include <stddef.h>

#include "tests/bench/kernels.h"

int bench_trials(const struct bench_options *asked)
{
    static const struct {
        const char *dtype, *shapes;
        double seconds;
        bool fused, no_check;
    } PARTS[] = {
        /* What follows the sums; the same shapes as the figure in EXPERIMENTS.md. */
        {"bf16",
         "2048x2048x2048,4096x4096x4096,8192x8192x8192,256x4096x4096,1024x4096x4096,"
         "256x14336x4096,1024x14336x4096,4096x14336x4096,256x4096x14336,1024x4096x14336,"
         "4096x4096x14336,64x4096x4096",
         70, true, false},
        {"bf16", "4096x4096x4096,256x4096x14336,333x777x1001,511x2049x4095,100x30000x513", 30,
         false, true},
        {"tf32",
         "256x4096x14336,256x4096x4096,1024x14336x4096,4096x4096x4096,1x4096x4096,"
         "4096x4096x14336,511x2049x4095",
         40, false, false},
        {"i8",
         "4096x14336x4096,4096x4096x4096,2048x2048x2048,1024x14336x4096,64x14336x4096,"
         "8192x8192x8192",
         40, false, false},
        {"f32",
         "1x4096x4096,16x4096x4096,64x4096x4096,256x4096x4096,1x14336x4096,64x4096x14336,"
         "333x777x1001",
         40, false, false},
    };
    int failed = 0;
    for (size_t i = 0; i < sizeof PARTS / sizeof *PARTS; i++) {
        struct bench_options options = *asked;
        options.dtypes = PARTS[i].dtype;
        options.shapes = PARTS[i].shapes;
        options.seconds = PARTS[i].seconds;
        options.fused = PARTS[i].fused;
        options.no_check = PARTS[i].no_check;
        options.quick = true;
        options.append = i > 0;
        failed |= bench_kernels(&options);
    }
    return failed;
}
