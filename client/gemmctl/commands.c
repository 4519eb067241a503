#include "client/gemmctl/command.h"

const struct command commands[] = {
    {"gemm", FOR_GEMM, 0, 2, "A [B] [-o C]", "compute C = act(alpha*op(A)*op(B) + beta*C0 + bias)",
     "  gemmctl gemm A.npy B.npy -o C.npy\n"
     "  gemmctl gemm A.npy B.npy -o C.npy --transb --bias bias.npy --act relu\n"
     "  gemmctl gemm operands.safetensors -o C.safetensors --timing\n"
     "  cat A.npy B.npy | gemmctl gemm - - > C.npy\n"
     "  gemmctl gemm a.bin b.bin -o c.bin -m 64 -n 64 -k 64 --dtype bf16\n"
     "  gemmctl gemm X.npy tensor:weights -o Y.npy\n"
     "  gemmctl gemm A.npy B.npy --async --timeout 10m\n"
     "  gemmctl gemm --random 512x512x512 --dtype f16 --check\n",
     command_gemm},
    {"attention", FOR_ATTENTION, 0, 3, "Q [K V] [-o O]",
     "compute O = softmax(scale*Q*K^T + mask)*V",
     "  gemmctl attention Q.npy K.npy V.npy -o O.npy --causal\n"
     "  gemmctl attention qkv.safetensors -o O.safetensors --lse lse.npy\n"
     "  cat Q.npy K.npy V.npy | gemmctl attention - - - > O.npy\n"
     "  gemmctl attention Q.npy tensor:keys tensor:values -o O.npy --layout bshd\n"
     "  gemmctl attention Q.npy K.npy V.npy --sequence chat --append --causal -o O.npy\n"
     "  gemmctl attention Q.npy K.npy V.npy --async --with-lse\n"
     "  gemmctl attention --random 1x8x512x64 --causal --timing\n",
     command_attention},
    {"conv", FOR_CONV, 0, 2, "X [W] [-o Y]", "compute Y = act(alpha*conv(X, W) + bias)",
     "  gemmctl conv X.npy W.npy -o Y.npy --stride 2 --padding 1\n"
     "  gemmctl conv xw.safetensors -o Y.safetensors --padding same --act relu\n"
     "  gemmctl conv X.npy tensor:filters -o Y.npy --layout nhwc --w-layout krsc\n"
     "  gemmctl conv tensor:layer1 W2.npy --store layer2 --padding same\n"
     "  cat X.npy W.npy | gemmctl conv - - --groups 64 > Y.npy\n"
     "  gemmctl conv --random 2x8x56x56 --filters 8 --filter-h 3 --filter-w 3 --check\n",
     command_conv},
    {"reduce", FOR_REDUCE, 0, 1, "X [-o Y]", "reduce an array over one axis: sum, mean, max, ...",
     "  gemmctl reduce X.npy -o Y.npy --op mean --axis 0\n"
     "  gemmctl reduce logits.npy -o best.npy --op argmax --keepdims\n"
     "  gemmctl reduce x.bin -o y.bin --shape 64,128 --dtype bf16 --out f32\n"
     "  gemmctl reduce tensor:weights -o norms.npy --op norm2 --axis 1\n"
     "  gemmctl reduce --random 64x100000 --op logsumexp --check\n",
     command_reduce},
    {"softmax", FOR_SOFTMAX, 0, 1, "X [-o Y]", "compute Y = softmax(scale*X) over the last axis",
     "  gemmctl softmax X.npy -o Y.npy --scale 0.125\n"
     "  gemmctl softmax X.npy -o Y.npy --lens lens.npy --log\n"
     "  cat X.npy | gemmctl softmax - > Y.npy\n"
     "  gemmctl softmax --random 64x1000 --dtype f16 --check\n",
     command_softmax},
    {"experts", FOR_EXPERTS, 0, 3, "A [W EXPERTS] [-o C]",
     "multiply each row of A by the experts of W that are numbered for the row",
     "  gemmctl experts A.npy W.npy experts.npy -o C.npy --weights weights.npy\n"
     "  gemmctl experts A.npy tensor:w13 experts.npy -o H.npy --glu --act silu\n"
     "  gemmctl experts operands.safetensors -o C.safetensors --transb\n"
     "  gemmctl experts --random 64x512 --n 1024 --count 8 --topk 2 --timing\n",
     command_experts},
    {"tensor put", FOR_TENSOR_PUT, 2, 2, "NAME FILE",
     "keep a tensor on the daemon; nothing is sent if the daemon has the same content",
     "  gemmctl tensor put weights W.npy\n"
     "  gemmctl tensor put table t.bin --shape 512,512 --dtype bf16 --evictable\n"
     "  gemmctl tensor put layer layer.safetensors --packed gptq\n",
     command_tensor_put},
    {"tensor get", FOR_TENSOR_GET, 1, 1, "NAME [-o FILE]", "fetch a tensor from the daemon",
     "  gemmctl tensor get weights -o W.npy\n", command_tensor_get},
    {"tensor ls", FOR_TENSOR_LS, 0, 1, "[NAME]",
     "list the tensors on the daemon, or the one of that name", "  gemmctl tensor ls\n",
     command_tensor_ls},
    {"tensor rm", FOR_TENSOR_RM, 1, OPERANDS_ANY, "NAME ...", "remove tensors from the daemon",
     "  gemmctl tensor rm weights table\n", command_tensor_rm},
    {"sequence put", FOR_SEQUENCE_PUT, 1, 1, "NAME --kv-heads COUNT --d SIZE",
     "create a sequence, which keeps keys and values on the daemon and grows",
     "  gemmctl sequence put chat --kv-heads 8 --d 128 --layers 32\n", command_sequence_put},
    {"sequence fork", FOR_SEQUENCE_FORK, 2, 2, "NAME NEW",
     "create a sequence that shares the positions of another one",
     "  gemmctl sequence fork chat reply --length 100\n", command_sequence_fork},
    {"sequence append", FOR_SEQUENCE_APPEND, 3, 3, "NAME K V",
     "append keys and values to a layer of a sequence",
     "  gemmctl sequence append chat K.npy V.npy --layer 1\n", command_sequence_append},
    {"sequence get", FOR_SEQUENCE_GET, 3, 3, "NAME K V",
     "fetch keys and values of a layer of a sequence to two files",
     "  gemmctl sequence get chat K.npy V.npy --layer 1\n"
     "  gemmctl sequence get chat K.npy V.npy --position 100 --positions 28\n",
     command_sequence_get},
    {"sequence truncate", FOR_SEQUENCE, 2, 2, "NAME LENGTH",
     "drop the last positions of a sequence", "  gemmctl sequence truncate chat 100\n",
     command_sequence_truncate},
    {"sequence ls", FOR_SEQUENCE, 0, 1, "[NAME]",
     "list the sequences on the daemon, or the one of that name", "  gemmctl sequence ls\n",
     command_sequence_ls},
    {"sequence rm", FOR_SEQUENCE, 1, OPERANDS_ANY, "NAME ...", "remove sequences from the daemon",
     "  gemmctl sequence rm chat reply\n", command_sequence_rm},
    {"job ls", FOR_JOB_LS, 0, 0, "", "list the jobs on the daemon, the newest first",
     "  gemmctl job ls\n", command_job_ls},
    {"job status", FOR_JOB_STATUS, 1, 1, "ID", "print a job's state",
     "  gemmctl job status \"$id\"\n", command_job_status},
    {"job wait", FOR_JOB_WAIT, 1, 1, "ID", "wait until a job has ended, and print the job's state",
     "  gemmctl job wait \"$id\" --timeout 1m\n", command_job_wait},
    {"job result", FOR_JOB_RESULT, 1, 1, "ID [-o C]", "fetch the result of a job that is done",
     "  gemmctl job result \"$id\" -o C.npy\n"
     "  gemmctl job result \"$id\" -o O.npy --lse lse.npy\n",
     command_job_result},
    {"job cancel", FOR_JOB_CANCEL, 1, 1, "ID", "end a job and drop the job's result",
     "  gemmctl job cancel \"$id\"\n", command_job_cancel},
    {"bench", FOR_BENCH, 0, 0, "[-m ROWS] [-n COLUMNS] [-k DEPTH]",
     "measure how many products the daemon answers per second",
     "  gemmctl bench -m 64 -n 64 -k 64 --connections 32 --duration 10s\n"
     "  gemmctl bench --plot latencies.svg\n",
     command_bench},
    {"bench attention", FOR_BENCH_ATTENTION, 0, 0, "[--heads COUNT] [--sq LENGTH]",
     "measure how many attentions the daemon answers per second",
     "  gemmctl bench attention --heads 8 --sq 1 --skv 4096 --connections 32\n", command_bench},
    {"bench conv", FOR_BENCH_CONV, 0, 0, "[--channels COUNT] [--filters COUNT] ...",
     "measure how many convolutions the daemon answers per second",
     "  gemmctl bench conv --channels 64 --filters 128 --stride 2 --padding same\n", command_bench},
    {"bench reduce", FOR_BENCH_REDUCE, 0, 0, "[--shape D0[,D1...]] [--op OP]",
     "measure how many reductions the daemon answers per second",
     "  gemmctl bench reduce --shape 64,100000 --op logsumexp --dtype bf16\n", command_bench},
    {"bench softmax", FOR_BENCH_SOFTMAX, 0, 0, "[--shape D0[,D1...]]",
     "measure how many softmaxes the daemon answers per second",
     "  gemmctl bench softmax --shape 64,32000 --connections 32\n", command_bench},
    {"bench experts", FOR_BENCH_EXPERTS, 0, 0, "[-m ROWS] [--count COUNT] [--topk COUNT] ...",
     "measure how many mixtures of experts the daemon answers per second",
     "  gemmctl bench experts -m 64 -n 1024 -k 1024 --count 8 --topk 2 --glu\n", command_bench},
    {"bench ladder", FOR_BENCH_LADDER, 0, 0, "[-n SIDE]",
     "time each of the daemon's kernels on square products", "  gemmctl bench ladder -n 1024\n",
     command_ladder},
    {"info", FOR_INFO, 0, 0, "", "show the daemon's version, devices, kernels and limits",
     "  gemmctl info\n", command_info},
    {"metrics", FOR_METRICS, 0, 0, "", "print the daemon's metrics in Prometheus' text format",
     "  gemmctl metrics | grep gemmd_requests_total\n", command_metrics},
    {"top", FOR_TOP, 0, 0, "", "watch the daemon's rate, latency, queue, devices and tensors",
     "  gemmctl top\n"
     "  gemmctl top --once --interval 10s\n",
     command_top},
    {"ready", FOR_READY, 0, 0, "",
     "exit with status 0 if the daemon accepts work, else print the reason",
     "  gemmctl ready --url unix:/run/gemmd/gemmd.sock\n", command_ready},
    {"ping", FOR_READY, 0, 0, "", "measure how long the daemon takes to answer",
     "  gemmctl ping\n"
     "  gemmctl ping --context lab --json\n",
     command_ping},
    {"version", FOR_READY, 0, 0, "", "print the versions of gemmctl, libgemmd and the daemon",
     "  gemmctl version\n", command_version},
    {"completion", FOR_COMPLETION, 1, 1, "bash|zsh|fish",
     "print the script that completes gemmctl's command line in a shell",
     "  source <(gemmctl completion bash)\n"
     "  gemmctl completion fish > ~/.config/fish/completions/gemmctl.fish\n",
     command_completion},
    {"help", FOR_HELP, 0, 2, "[COMMAND]", "print help for gemmctl or for a command",
     "  gemmctl help gemm\n", command_help},
    {0},
};
