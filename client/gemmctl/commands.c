#include "client/gemmctl/command.h"

const struct command commands[] = {
    {"gemm", FOR_GEMM, 1, 2, "A [B] [-o C]", "compute C = act(alpha*op(A)*op(B) + beta*C0 + bias)",
     "  gemmctl gemm A.npy B.npy -o C.npy\n"
     "  gemmctl gemm A.npy B.npy -o C.npy --transb --bias bias.npy --act relu\n"
     "  gemmctl gemm operands.safetensors -o C.safetensors --timing\n"
     "  cat A.npy B.npy | gemmctl gemm - - > C.npy\n"
     "  gemmctl gemm a.bin b.bin -o c.bin -m 64 -n 64 -k 64 --dtype bf16\n",
     command_gemm},
    {"bench", FOR_BENCH, 0, 1, "[ladder] [-m ROWS] [-n COLUMNS] [-k DEPTH]",
     "measure how many products a second the daemon answers",
     "  gemmctl bench -m 64 -n 64 -k 64 --connections 32 --duration 10s\n"
     "  gemmctl bench ladder\n",
     command_bench},
    {"info", FOR_INFO, 0, 0, "", "show what the daemon is, has and allows", "  gemmctl info\n",
     command_info},
    {"metrics", FOR_METRICS, 0, 0, "", "print the daemon's metrics, as Prometheus reads them",
     "  gemmctl metrics | grep gemmd_requests_total\n", command_metrics},
    {"ready", FOR_READY, 0, 0, "", "say by the exit code whether the daemon takes work",
     "  gemmctl ready --url unix:/run/gemmd/gemmd.sock\n", command_ready},
    {"help", FOR_HELP, 0, 1, "[COMMAND]", "print help, also of a command", "  gemmctl help gemm\n",
     command_help},
    {0},
};
