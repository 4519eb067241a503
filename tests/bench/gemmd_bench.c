/* gemmd-bench: benchmarks that need no daemon. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/kernels.h"
#include "tests/bench/ladder.h"

static void usage(FILE *to)
{
    fputs("usage: gemmd-bench ladder [OPTIONS]\n"
          "Checks and times every rung of the ladder on squares of 256 ... 4096, next to the best "
          "of\n"
          "cuBLASLt's candidates.\n"
          "  --cpu             on the CPU instead, next to OpenBLAS\n"
          "  --tiles           also each tile of the kernels that have several\n"
          "  --shapes LIST     MxNxK,...: the tiles of f32 on these shapes instead\n"
          "  --out FILE        write the tables there too (Markdown)\n"
          "\n"
          "usage: gemmd-bench kernels [OPTIONS]\n"
          "Checks every kernel for this GPU, then times it against the best of cuBLASLt's\n"
          "candidates, interleaved, at settled clocks, on uniform random operands.\n"
          "  --dtype LIST      of bf16, f16, i8, tf32 (default bf16)\n"
          "  --shapes LIST     MxNxK,... instead of the built-in list\n"
          "  --variants TEXT   only kernels with TEXT in their name\n"
          "  --seconds S       stop after S seconds (default 280)\n"
          "  --quick           fewer shapes and rounds\n"
          "  --check-only      check, time nothing\n"
          "  --no-check        time only\n"
          "  --out FILE        write the tables there too (Markdown)\n",
          to);
}

int main(int argc, char **argv)
{
    enum {
        DTYPE = 1,
        SHAPES,
        VARIANTS,
        SECONDS,
        QUICK,
        CHECK_ONLY,
        NO_CHECK,
        OUT,
        CPU,
        TILES,
        HELP
    };
    static const struct option OPTIONS[] = {{"dtype", required_argument, NULL, DTYPE},
                                            {"shapes", required_argument, NULL, SHAPES},
                                            {"variants", required_argument, NULL, VARIANTS},
                                            {"seconds", required_argument, NULL, SECONDS},
                                            {"quick", no_argument, NULL, QUICK},
                                            {"check-only", no_argument, NULL, CHECK_ONLY},
                                            {"no-check", no_argument, NULL, NO_CHECK},
                                            {"out", required_argument, NULL, OUT},
                                            {"cpu", no_argument, NULL, CPU},
                                            {"tiles", no_argument, NULL, TILES},
                                            {"help", no_argument, NULL, HELP},
                                            {NULL, 0, NULL, 0}};
    struct bench_options options = {.seconds = 280, .dtypes = "bf16"};
    struct ladder_options ladder = {0};
    for (int c; (c = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1;) {
        switch (c) {
        case DTYPE:
            options.dtypes = optarg;
            break;
        case SHAPES:
            options.shapes = optarg;
            break;
        case VARIANTS:
            options.variants = optarg;
            break;
        case SECONDS:
            options.seconds = atof(optarg);
            break;
        case QUICK:
            options.quick = true;
            break;
        case CHECK_ONLY:
            options.check_only = true;
            break;
        case NO_CHECK:
            options.no_check = true;
            break;
        case OUT:
            options.out = optarg;
            break;
        case CPU:
            ladder.cpu = true;
            break;
        case TILES:
            ladder.tiles = true;
            break;
        case HELP:
            usage(stdout);
            return 0;
        default:
            usage(stderr);
            return 2;
        }
    }
    const char *what = optind + 1 == argc ? argv[optind] : "";
    if (strcmp(what, "kernels") == 0)
        return bench_kernels(&options);
    if (strcmp(what, "ladder") == 0) {
        ladder.shapes = options.shapes;
        ladder.out = options.out;
        return bench_ladder(&ladder);
    }
    usage(stderr);
    return 2;
}
