#include "server/device/cuda/attention.h"

#include "kernels/attention_grouped.h"
#include "kernels/cuda/move/move.h"
#include "kernels/cuda_error.h"
#include "proto/dtype.h"

/* From this size on, a copy by the copy engine takes less time than the kernel needs for the same
 * bytes, the cost of issuing the copy included. */
static const uint64_t LARGE_BYTES = 256 << 10;

static unsigned char *workspace_of(const struct attention_parts *parts, unsigned char *range)
{
    return parts->workspace.bytes > 0 ? range + parts->workspace.offset : NULL;
}

/* Moves between host and device, gathered until one kernel launch is full of them. */
struct gathering {
    cudaStream_t stream;
    enum gemmd_error code; /* of the first launch that failed */
    cudaError_t error;     /* of the first copy that failed */
    struct span_moves moves;
};

static bool goes_well(const struct gathering *gathering)
{
    return gathering->code == GEMMD_OK && gathering->error == cudaSuccess;
}

static void gathering_flush(struct gathering *gathering)
{
    if (goes_well(gathering) && gathering->moves.count > 0)
        gathering->code = move_spans_launch(gathering->stream, &gathering->moves);
    gathering->moves.count = 0;
}

static void gathering_move(struct gathering *gathering, void *to, const void *from, uint64_t bytes)
{
    struct span_moves *moves = &gathering->moves;
    if (bytes == 0 || !goes_well(gathering))
        return;
    if (bytes >= LARGE_BYTES) {
        gathering->error = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, gathering->stream);
        return;
    }
    moves->list[moves->count++] = (struct span_move){from, to, bytes};
    if (moves->count == SPAN_MOVES)
        gathering_flush(gathering);
}

static void move_in(struct gathering *gathering, const struct attention_parts *parts,
                    const struct attention_problem *host, unsigned char *range)
{
    gathering_move(gathering, range + parts->lens_q.offset, host->lens_q, parts->lens_q.bytes);
    gathering_move(gathering, range + parts->lens_kv.offset, host->lens_kv, parts->lens_kv.bytes);
    gathering_move(gathering, range + parts->q.offset, host->q, parts->q.bytes);
    gathering_move(gathering, range + parts->k.offset, host->k, parts->k.bytes);
    gathering_move(gathering, range + parts->v.offset, host->v, parts->v.bytes);
}

static void move_out(struct gathering *gathering, const struct attention_parts *parts,
                     const struct attention_problem *host, const unsigned char *range)
{
    gathering_move(gathering, host->o, range + parts->o.offset, parts->o.bytes);
    gathering_move(gathering, host->lse, range + parts->lse.offset, parts->lse.bytes);
}

/* Fills in the members of the group and enqueues the copies of their operands. Returns how many
 * members there are. */
static uint32_t gather_in(struct gathering *gathering, struct cuda_attention_group *group,
                          const struct work *works, unsigned char *memory)
{
    uint32_t count = 0;
    for (const struct work *work = works; work != NULL; work = work->next, count++) {
        unsigned char *range = memory + work->device_offset;
        const struct attention_parts *parts = &group->parts[count];
        group->problems[count] = attention_parts_problem(parts, &work->attention, range);
        group->members[count] =
            (struct attention_member){&group->problems[count], workspace_of(parts, range)};
        move_in(gathering, parts, &work->attention, range);
    }
    gathering_flush(gathering);
    return count;
}

static void gather_out(struct gathering *gathering, const struct cuda_attention_group *group,
                       const struct work *works, unsigned char *memory)
{
    const struct attention_parts *parts = group->parts;
    for (const struct work *work = works; work != NULL; work = work->next)
        move_out(gathering, parts++, &work->attention, memory + work->device_offset);
    gathering_flush(gathering);
}

static struct cuda_failure gathering_failed(const struct gathering *gathering, const char *call)
{
    return (struct cuda_failure){
        call, gathering->code, gathering->code != GEMMD_OK ? cudaGetLastError() : gathering->error};
}

struct cuda_failure cuda_attention_enqueue_group(const struct cuda_slot *slot,
                                                 struct cuda_attention_group *group,
                                                 const struct work *works, unsigned char *memory)
{
    struct gathering gathering;
    gathering.stream = slot->stream;
    gathering.code = GEMMD_OK;
    gathering.moves.count = 0;
    gathering.error = cudaEventRecord(slot->begun, slot->stream);
    const uint32_t count = gather_in(&gathering, group, works, memory);
    if (goes_well(&gathering))
        gathering.error = cudaEventRecord(slot->copied_in, slot->stream);
    if (!goes_well(&gathering))
        return gathering_failed(&gathering, "the copy to the device");

    const enum gemmd_error code =
        works->attention_kernel->run_group(slot->context, group->members, count);
    if (code != GEMMD_OK)
        return (struct cuda_failure){works->attention_kernel->name, code, cudaGetLastError()};

    gathering.error = cudaEventRecord(slot->computed, slot->stream);
    gather_out(&gathering, group, works, memory);
    if (goes_well(&gathering))
        gathering.error = cudaEventRecord(slot->ended, slot->stream);
    if (!goes_well(&gathering))
        return gathering_failed(&gathering, "the copy from the device");
    return (struct cuda_failure){.call = NULL};
}

static struct cuda_failure warm_one(const struct cuda_slot *slot, const struct gemm_device *device,
                                    const struct attention_problem *like, unsigned char *range,
                                    uint64_t bytes)
{
    static const struct device_span nowhere;
    struct attention_problem p = *like;
    struct attention_parts parts;
    const struct attention_kernel *kernel;
    p.q_strides = p.o_strides = attention_strides(ATTENTION_BHSD, p.heads, p.sq, p.d);
    p.k_strides = p.v_strides = attention_strides(ATTENTION_BHSD, p.kv_heads, p.skv, p.d);
    if (attention_select(device, "auto", &p, &kernel, NULL) != GEMMD_OK ||
        !attention_parts_place(&p, kernel, nowhere, &parts) || parts.total_bytes > bytes)
        return (struct cuda_failure){.call = NULL};
    p = attention_parts_problem(&parts, &p, range);
    /* Device memory may hold NaN, with which kernels take a slow path for every row. */
    const cudaError_t error = cudaMemsetAsync(range, 0, parts.total_bytes, slot->stream);
    if (error != cudaSuccess)
        return (struct cuda_failure){"cudaMemsetAsync", cuda_error_code((int)error), error};
    const struct attention_member member = {&p, workspace_of(&parts, range)};
    enum gemmd_error code = kernel->run(slot->context, &p, member.workspace);
    if (code == GEMMD_OK && attention_can_group(kernel, &p))
        code = kernel->run_group(slot->context, &member, 1);
    if (code == GEMMD_OK)
        return (struct cuda_failure){.call = NULL};
    return (struct cuda_failure){kernel->name, code, cudaGetLastError()};
}

struct cuda_failure cuda_attention_warm(const struct cuda_slot *slot,
                                        const struct gemm_device *device, unsigned char *range,
                                        uint64_t bytes)
{
    static const uint64_t widths[] = {64, 96, 128, 192, 256};
    /* One query on many keys, few queries, and enough queries for every multiprocessor. */
    static const struct {
        uint64_t batch, sq, skv;
    } shapes[] = {{1, 1, 4096}, {1, 100, 100}, {64, 256, 256}};
    struct cuda_failure failure = {.call = NULL};
    for (int dtype = 0; dtype < GEMMD_DTYPE_COUNT; dtype++)
        for (uint32_t i = 0; i < 2 * 3 * 5 && failure.call == NULL; i++) {
            const uint64_t width = widths[i / 6];
            const struct attention_problem problem = {.dtype = (enum gemmd_dtype)dtype,
                                                      .batch = shapes[i / 2 % 3].batch,
                                                      .heads = 4,
                                                      .kv_heads = 4,
                                                      .sq = shapes[i / 2 % 3].sq,
                                                      .skv = shapes[i / 2 % 3].skv,
                                                      .d = width,
                                                      .dv = width,
                                                      .causal = i % 2,
                                                      .scale = 0.125f};
            failure = warm_one(slot, device, &problem, range, bytes);
        }
    return failure;
}
