/*
 * fail_cuda.h - makes chosen calls of the CUDA runtime and of cuBLAS fail, by a plan that a test
 * changes while the program runs.
 *
 * The environment variable FAIL_CUDA names a file of sizeof(struct cuda_plan) bytes, which is
 * mapped. A test that maps the file too changes the plan. To be linked with the option --wrap=NAME
 * of the linker for each call (tests/faults/CMakeLists.txt). A call site is the place in the
 * program that calls; the plan lists each site that was reached. All threads count together.
 */
#ifndef TESTS_FAULTS_FAIL_CUDA_H
#define TESTS_FAULTS_FAIL_CUDA_H

#include <cuda_runtime_api.h>
#include <stdatomic.h>
#include <stdint.h>

enum { CUDA_SITES_MAX = 1024, CUDA_CALL_NAME = 48 };

/* What happens at a call that the plan chooses. */
enum cuda_fault {
    CUDA_FAULT_ERROR,  /* the call does nothing and returns `error` */
    CUDA_FAULT_STICKY, /* likewise, and so does every call of the process from then on */
    CUDA_FAULT_TRAP, /* a kernel that traps is launched before the kernel that the call launches */
    CUDA_FAULT_BUSY, /* likewise a kernel that runs for `ms` milliseconds */
    CUDA_FAULT_WAIT, /* the call takes `ms` milliseconds longer */
};

struct cuda_site {
    atomic_int_least64_t offset; /* of the return address, from the program's first byte; 0: none */
    atomic_int_least64_t calls;
    char name[CUDA_CALL_NAME]; /* of the function that is called */
};

struct cuda_planned {
    atomic_int_least64_t fault; /* an enum cuda_fault */
    atomic_int_least64_t site;  /* an offset; 0: all sites; -1: all launches of kernels */
    atomic_int_least64_t error; /* a cudaError_t */
    atomic_int_least64_t ms;
    atomic_int_least64_t left;    /* calls that succeed before the first that fails */
    atomic_int_least64_t to_fail; /* calls that fail then; 0: none */
    atomic_int_least64_t failed;  /* calls that have failed; counted here */
};

/* Faults that are planned at the same time; of two for one call, the first happens. */
enum { CUDA_PLANNED = 2 };

struct cuda_plan {
    struct cuda_planned faults[CUDA_PLANNED];
    struct cuda_site sites[CUDA_SITES_MAX];
};

/* Counts a call, waits if the plan says so, and returns the error with which the call fails, or
 * cudaSuccess. `site` is the call's return address. Sets what cudaGetLastError returns next. */
cudaError_t cuda_call_fails(const char *name, const void *site);
/* Makes every call of this process fail from now on. */
void cuda_calls_fail(cudaError_t error);

#endif
