#include "server/api/compute/array_call.h"

#include "proto/dtype.h"
#include "proto/npy.h"
#include "server/api/services.h"

uint32_t array_call_header(const struct compute_call *call, char out[SAFETENSORS_HEADER_MAX])
{
    if (call->answer_format == FORMAT_NPY)
        return npy_header(&call->c, out);
    if (call->answer_format == FORMAT_SAFETENSORS) {
        const struct safetensors_entry entry = {.name = "y", .tensor = call->c};
        return safetensors_header(&entry, 1, out);
    }
    return 0;
}

enum gemmd_error array_call_acquire(struct compute_call *call, const char *x,
                                    struct services *services, const char *tenant,
                                    struct fault *fault)
{
    return call_residents_acquire(&call->residents, (struct resident_name){"x", x},
                                  (struct resident_name){"", ""}, services->tensors, tenant, fault);
}

uint64_t array_call_leading(const struct call_residents *residents, uint64_t width)
{
    const struct resident *x = call_residents_a(residents);
    return x != NULL ? resident_leading(x) : width;
}

enum gemmd_error array_call_plan(struct compute_call *call, const char *kernel, struct fault *fault)
{
    enum { MANY_ROWS = 128 }; /* so many that all bytes of the operand count */
    struct work *work = &call->work;
    const struct gemm_device device = device_gemm(call->executor->device);
    work->outside_bytes = call_residents_work_bytes(&call->residents, MANY_ROWS, MANY_ROWS);
    const enum gemmd_error code = operation_select(work->task.operation, &device, kernel,
                                                   &work->task.problem, &work->task.kernel, fault);
    if (code != GEMMD_OK)
        return code;
    if (!device_plan(call->executor->device, work))
        return fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL,
                         "the device memory needed does not fit in 64 bits");
    return GEMMD_OK;
}

enum gemmd_dtype array_call_describe(const struct array_shape *shape, enum gemmd_dtype dtype,
                                     struct log_access *entry)
{
    entry->dtype = dtype_name(dtype);
    if (shape->rank == 0)
        return GEMMD_DTYPE_COUNT;
    entry->m = entry->k = entry->batch = 1;
    entry->n = shape->dims[shape->rank - 1];
    for (uint32_t i = 0; i + 1 < shape->rank; i++)
        entry->m *= shape->dims[i];
    return dtype;
}
