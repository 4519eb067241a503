/* gemmd-bench: benchmarks that need no daemon. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/openblas_core.h"
#include "tests/bench/attention.h"
#include "tests/bench/conv_options.h"
#include "tests/bench/devices.h"
#include "tests/bench/kernels.h"
#include "tests/bench/ladder.h"
#include "tests/bench/rows.h"
#include "tests/bench/served.h"

static void usage(FILE *to)
{
    fputs(
        "usage: gemmd-bench kernels|attention|conv|reduce|softmax|served|scaled|few|error|ladder|"
        "devices [OPTIONS]\n"
        "       gemmd-bench choice TABLE...\n"
        "kernels: checks every kernel for this GPU, then times it against the best of\n"
        "cuBLASLt's candidates, interleaved, at settled clocks, on uniform random operands.\n"
        "attention: checks and times every attention kernel (--dtype: bf16, f16; --shapes: cells\n"
        "with one of these parts in their name, such as S77,S512; --variants, --seconds,\n"
        "--check-only, --out).\n"
        "conv: times every convolution kernel on layers of networks (--dtype: bf16, f16, i8, "
        "f32;\n"
        "--shapes: layers with that in their name; --list: layers of a file, a line\n"
        "\"images channels side filters taps stride padding\" each; --nchw; --variants, "
        "--seconds,\n"
        "--out).\n"
        "reduce, softmax: bytes a second of every kernel, for lengths of 128 to 131072 "
        "(--variants:\n"
        "the kernel of that name, --seconds, --out).\n"
        "served: times products as the daemon computes them, operands laid out included\n"
        "(--dtype: f32, tf32, tf32t, i8, i8t, f8, f8t, f8p, bf16, fused, f32out, odd, odd32,\n"
        "deep, deep32, deep8; --variants: the kernel next to cuBLAS, default wgmma; --seconds, "
        "--out).\n"
        "scaled: times products of operands with scales, next to cuBLASLt's own scaling\n"
        "(--seconds, --out).\n"
        "few: times f8_e4m3 with precision full and few rows, next to bf16 (--out).\n"
        "error: f32 products against f64 (--out).\n"
        "ladder: checks and times every rung of the ladder on squares of 256 ... 4096, next to\n"
        "the best of cuBLASLt's candidates (--cpu: on the CPU, next to OpenBLAS; --tiles: also\n"
        "each tile of the kernels that have several; --shapes: the tiles of f32 on these; --out).\n"
        "choice: what is chosen on the shapes of tables that `kernels` wrote with --out, from the\n"
        "times of these tables. Needs no GPU.\n"
        "devices: what all GPUs of the host, their buses and their links allow next to one GPU\n"
        "(--out).\n"
        "  --dtype LIST      of bf16, f16, i8, f8_e4m3, tf32, tf32t (B stored [n, k]), f32,\n"
        "                    f32t (B stored [n, k]), bf16_f32, f16_f32 (results of f32; default\n"
        "                    bf16)\n"
        "  --shapes LIST     MxNxK,... instead of the built-in list\n"
        "  --list FILE       shapes, a line \"m n k\" each, instead of the built-in list\n"
        "  --variants TEXT   only kernels with TEXT in their name\n"
        "  --near P          only kernels whose estimate is at most P % above the lowest\n"
        "  --seconds S       stop after S seconds (default 280)\n"
        "  --quick           fewer shapes and rounds\n"
        "  --check-only      check, time nothing\n"
        "  --no-check        time only\n"
        "  --repeat N        launch each kernel N more times on each shape, and compare the bits\n"
        "  --nchw            convolutions with channels first\n"
        "  --fused           time own kernels with a bias and gelu_tanh, cuBLASLt without\n"
        "  --out FILE        write the tables there too (Markdown)\n",
        to);
}

int main(int argc, char **argv)
{
    enum {
        DTYPE = 1,
        SHAPES,
        LIST,
        VARIANTS,
        NEAR,
        SECONDS,
        QUICK,
        CHECK_ONLY,
        NO_CHECK,
        REPEAT,
        FUSED,
        OUT,
        CPU,
        TILES,
        NCHW,
        HELP
    };
    static const struct option OPTIONS[] = {{"dtype", required_argument, NULL, DTYPE},
                                            {"shapes", required_argument, NULL, SHAPES},
                                            {"list", required_argument, NULL, LIST},
                                            {"variants", required_argument, NULL, VARIANTS},
                                            {"near", required_argument, NULL, NEAR},
                                            {"seconds", required_argument, NULL, SECONDS},
                                            {"quick", no_argument, NULL, QUICK},
                                            {"check-only", no_argument, NULL, CHECK_ONLY},
                                            {"no-check", no_argument, NULL, NO_CHECK},
                                            {"repeat", required_argument, NULL, REPEAT},
                                            {"fused", no_argument, NULL, FUSED},
                                            {"out", required_argument, NULL, OUT},
                                            {"cpu", no_argument, NULL, CPU},
                                            {"tiles", no_argument, NULL, TILES},
                                            {"nchw", no_argument, NULL, NCHW},
                                            {"help", no_argument, NULL, HELP},
                                            {NULL, 0, NULL, 0}};
    struct bench_options options = {.seconds = 280};
    struct ladder_options ladder = {0};
    bool nchw = false;
    for (int c; (c = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1;) {
        switch (c) {
        case DTYPE:
            options.dtypes = optarg;
            break;
        case SHAPES:
            options.shapes = optarg;
            break;
        case LIST:
            options.list = optarg;
            break;
        case VARIANTS:
            options.variants = optarg;
            break;
        case NEAR:
            options.near_percent = atof(optarg);
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
        case REPEAT:
            options.repeat = atoi(optarg);
            break;
        case FUSED:
            options.fused = true;
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
        case NCHW:
            nchw = true;
            break;
        case HELP:
            usage(stdout);
            return 0;
        default:
            usage(stderr);
            return 2;
        }
    }
    if (optind + 1 < argc && strcmp(argv[optind], "choice") == 0) {
        return bench_choice((const char *const *)argv + optind + 1, argc - optind - 1);
    }
    const char *command = optind + 1 == argc ? argv[optind] : "";
    if (strcmp(command, "served") == 0) {
        return bench_served(options.dtypes, options.variants, options.seconds, options.out);
    }
    if (strcmp(command, "devices") == 0) {
        return bench_devices(options.out);
    }
    if (strcmp(command, "scaled") == 0) {
        return bench_scaled(options.seconds, options.out);
    }
    if (strcmp(command, "few") == 0) {
        return bench_few_rows(options.out);
    }
    if (strcmp(command, "error") == 0) {
        return bench_error(options.out);
    }
    if (strcmp(command, "ladder") == 0) {
        if (ladder.cpu) {
            openblas_core_set(argv);
        }
        ladder.shapes = options.shapes;
        ladder.out = options.out;
        return bench_ladder(&ladder);
    }
    if (strcmp(command, "attention") == 0) {
        const struct attention_options attention = {
            .seconds = options.seconds,
            .dtypes = options.dtypes != NULL ? options.dtypes : "bf16,f16",
            .kernels = options.variants,
            .cells = options.shapes,
            .out = options.out,
            .check_only = options.check_only,
        };
        return bench_attention(&attention);
    }
    if (strcmp(command, "conv") == 0) {
        const struct conv_options conv = {
            .seconds = options.seconds,
            .dtypes = options.dtypes != NULL ? options.dtypes : "bf16,f16",
            .kernels = options.variants,
            .layers = options.shapes,
            .list = options.list,
            .out = options.out,
            .nchw = nchw,
        };
        return bench_conv(&conv);
    }
    if (strcmp(command, "reduce") == 0 || strcmp(command, "softmax") == 0) {
        const struct rows_options rows = {.command = command,
                                          .kernel = options.variants,
                                          .out = options.out,
                                          .seconds = options.seconds};
        return bench_rows(&rows);
    }
    if (strcmp(command, "kernels") != 0) {
        usage(stderr);
        return 2;
    }
    options.dtypes = options.dtypes != NULL ? options.dtypes : "bf16";
    return bench_kernels(&options);
}
