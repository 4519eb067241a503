/*
 * call_prepare.h - makes a call whose shapes are known ready to run on a device: the kernel, and
 * the memory of the result and of the device.
 *
 * The function is called by the thread that uses the call (compute_call.h).
 */
#ifndef SERVER_API_COMPUTE_CALL_PREPARE_H
#define SERVER_API_COMPUTE_CALL_PREPARE_H

#include <gemmd/errors.h>

struct compute_call;
struct fault;
struct services;

/* Chooses the kernel, takes the memory of the result and the device memory, and decides whether
 * several devices compute the call (call_split.h). If the device lacks memory, another device is
 * chosen. After a failure the call is unchanged, except that its reservation may have grown. */
enum gemmd_error call_prepare(struct compute_call *call, struct services *services,
                              struct fault *fault);

#endif
