#include <cblas.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/cpu/cpu_context.h"
#include "kernels/reduce.h"
#include "kernels/softmax.h"

/* The addresses that a thread of OpenBLAS may take: a buffer of 128 MiB, and as many again for an
 * arena, where malloc is asked for the buffer because mmap gave none. */
static const uint64_t OPENBLAS_THREAD_BYTES = (uint64_t)256 << 20;

/* The cores that this process may run on, which in a container are fewer than the machine has. */
static uint32_t usable_cores(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    int count = CPU_COUNT(&set);
    return count > 0 ? (uint32_t)count : 1;
}

/* The scratch memory of the kernel that needs the most. Kernels of a context run one at a time. */
static uint64_t most_scratch_bytes(void)
{
    const uint64_t of_kernels[] = {tiled_scratch_bytes(), attention_tiled_scratch_bytes(),
                                   conv_depthwise_scratch_bytes(), conv_implicit_scratch_bytes()};
    uint64_t most = 0;
    for (uint32_t i = 0; i < sizeof of_kernels / sizeof *of_kernels; i++)
        most = of_kernels[i] > most ? of_kernels[i] : most;
    return most;
}

static void cpu_destroy(struct gemm_context *base)
{
    struct cpu_context *context = cpu_context_of(base);
    team_destroy(context->team);
    free(context->scratch);
    free(context);
}

/* Sets the number of OpenBLAS's threads and makes them allocate their buffers. A thread of OpenBLAS
 * that gets no buffer asks again without end. Small products need no buffers, so the lack would
 * show only later, when a larger product never returns. The function therefore first finds out
 * whether there are enough addresses for the buffers of all threads. Threads that OpenBLAS started
 * when it was loaded may still be waiting for buffers. */
static enum gemmd_error openblas_prepare(uint32_t threads, struct fault *fault)
{
    const uint32_t loaded = (uint32_t)openblas_get_num_threads();
    const uint64_t bytes = (loaded > threads ? loaded : threads) * OPENBLAS_THREAD_BYTES;
    void *addresses =
        mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (addresses == MAP_FAILED)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                         "the system does not give %" PRIu64
                         " bytes of addresses for the buffers of OpenBLAS's threads (ulimit -v)",
                         bytes);
    munmap(addresses, bytes);
    /* Set here and never again: the number of threads is one of the things that bits depend on. */
    openblas_set_num_threads((int)threads);
    /* ssymm takes a buffer whatever its sizes are, and OpenBLAS keeps the buffer. */
    const float one = 1;
    float product;
    cblas_ssymm(CblasRowMajor, CblasLeft, CblasUpper, 1, 1, 1, &one, 1, &one, 1, 0, &product, 1);
    return GEMMD_OK;
}

/* A context whose team has `size` threads. */
static enum gemmd_error make_context(uint32_t size, struct gemm_context **out, struct fault *fault)
{
    struct cpu_context *context = calloc(1, sizeof *context);
    *out = NULL;
    if (context == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for a CPU context");
    context->base.backend = &gemm_backend_cpu;
    context->scratch_bytes = most_scratch_bytes();
    context->scratch = aligned_alloc(64, size * context->scratch_bytes);
    const enum gemmd_error code =
        context->scratch == NULL
            ? fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for %u CPU threads", size)
            : team_create(size, &context->team, fault);
    if (code != GEMMD_OK) {
        cpu_destroy(&context->base);
        return code;
    }
    *out = &context->base;
    return GEMMD_OK;
}

static enum gemmd_error cpu_create(void *stream, uint32_t threads, struct gemm_context **out,
                                   struct fault *fault)
{
    (void)stream;
    const uint32_t size = threads != 0 ? threads : usable_cores();
    const enum gemmd_error code = openblas_prepare(size, fault);
    *out = NULL;
    return code == GEMMD_OK ? make_context(size, out, fault) : code;
}

enum gemmd_error cpu_context_beside(struct gemm_context **out, struct fault *fault)
{
    return make_context(1, out, fault);
}

void cpu_watch_begin(struct gemm_context *context, bool (*stops)(void *argument), void *argument)
{
    team_watch(cpu_context_of(context)->team, stops, argument);
}

bool cpu_watch_end(struct gemm_context *context)
{
    struct team *team = cpu_context_of(context)->team;
    const bool stopped = team_has_stopped(team);
    team_watch(team, NULL, NULL);
    return stopped;
}

static enum gemmd_error cpu_move_rows(struct gemm_context *context, const struct gemm_moves *moves)
{
    (void)context;
    for (uint32_t i = 0; i < moves->count; i++) {
        const struct gemm_move *move = &moves->list[i];
        for (uint64_t row = 0; row < move->rows; row++)
            memcpy((char *)move->to + row * moves->to_pitch,
                   (const char *)move->from + row * moves->from_pitch, moves->row_bytes);
    }
    return GEMMD_OK;
}

static const char *cpu_library(void)
{
    return openblas_get_config();
}

static const struct operation_kernel *const kernels[] = {&gemm_cpu_openblas, &gemm_cpu_tiled,
                                                         &gemm_cpu_naive, NULL};
static const struct operation_kernel *const attention[] = {&attention_cpu_tiled,
                                                           &attention_cpu_naive, NULL};
static const struct operation_kernel *const conv[] = {&conv_cpu_depthwise, &conv_cpu_implicit,
                                                      &conv_cpu_product, &conv_cpu_naive, NULL};

static const struct operation_kernel *const reduce[] = {&reduce_cpu_vector, &reduce_cpu_naive,
                                                        NULL};
static const struct operation_kernel *const softmax[] = {&softmax_cpu_vector, &softmax_cpu_naive,
                                                         NULL};

static const struct operation_kernel *const experts[] = {&experts_cpu_gathered, &experts_cpu_naive,
                                                         NULL};

const struct gemm_backend_entry gemm_backend_cpu = {
    .name = "cpu",
    .kernels = {[OPERATION_GEMM] = kernels,
                [OPERATION_ATTENTION] = attention,
                [OPERATION_CONV2D] = conv,
                [OPERATION_REDUCE] = reduce,
                [OPERATION_SOFTMAX] = softmax,
                [OPERATION_EXPERTS] = experts},
    .context_create = cpu_create,
    .context_destroy = cpu_destroy,
    .move_rows = cpu_move_rows,
    .check = cpu_check,
    .library = cpu_library,
};
