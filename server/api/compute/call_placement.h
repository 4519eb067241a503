/*
 * call_placement.h - where and how a call is computed: the device, the kernel, and the memory of
 * the results and of the device.
 *
 * A device is charged with the estimated time of its calls until they are done (executor.h), so
 * that the next call goes to the device that will be done first. The functions are called by the
 * thread that uses the call (compute_call.h).
 */
#ifndef SERVER_API_COMPUTE_CALL_PLACEMENT_H
#define SERVER_API_COMPUTE_CALL_PLACEMENT_H

#include "server/api/compute/compute_call.h"

/* Chooses the device that computes the call. If the client shares memory of a device, that device
 * is chosen. Otherwise the device is chosen that will be done first with its work and with copying
 * the resident operands that it lacks. Bit i of `full`: device i had no memory for the call, and
 * must not be chosen. */
struct executor *call_device_choose(const struct compute_call *call, struct services *services,
                                    uint32_t full);
/* Charges the call's executor with the estimated time of `flops` floating-point operations and
 * `bytes` copied bytes, in place of an earlier estimate. With a single device there is nothing to
 * choose, and nothing is charged. */
void call_device_charge(struct compute_call *call, const struct services *services, double flops,
                        uint64_t bytes);
/* Takes the call's time off its executor's charge. */
void call_device_discharge(struct compute_call *call);

/* Sets c, lse, result_bytes and sends_result from the shapes in `request`. False: a size overflows,
 * and result_bytes is UINT64_MAX. */
bool call_measure_results(struct compute_call *call, const union call_request *request);
/* Enlarges the reservation to `bytes` bytes, unless it has as many already. Errors are those of
 * admission_grow. */
enum gemmd_error call_reserve_more(struct compute_call *call, uint64_t bytes, struct fault *fault);

/* Makes a call whose shapes are known ready to run: chooses the kernel, takes the memory of the
 * result and the device memory, and decides whether several devices compute the call
 * (call_split.h). `request` is the call's request, completed with the shapes. If the device lacks
 * memory, another device is chosen. A call is prepared once, by the first step that knows the
 * shapes; for a call that is prepared already the function does nothing. GEMMD_ERR_TOO_LARGE
 * (--max-result, --max-work, --device-bytes), GEMMD_ERR_OUT_OF_MEMORY, GEMMD_ERR_UNSUPPORTED, or an
 * error of admission_grow or of the store of tensors: the request must be refused. */
enum gemmd_error call_prepare(struct compute_call *call, struct services *services,
                              const union call_request *request, struct fault *fault);

#endif
