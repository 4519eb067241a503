/* has_gpu.h - whether this host has a GPU that CUDA can use. */
#ifndef UNIT_HAS_GPU_H
#define UNIT_HAS_GPU_H

#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/device/device.h"

/* Asked in another process: a child of one that has used CUDA cannot use it. */
static inline bool has_gpu(void)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        uint32_t count = 0;
        _exit(device_count(GEMM_BACKEND_CUDA, &count, NULL) == GEMMD_OK && count > 0 ? 1 : 0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == 1;
}

#endif
