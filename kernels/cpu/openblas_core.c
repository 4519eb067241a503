#include "kernels/cpu/openblas_core.h"

#include <cblas.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char VARIABLE[] = "OPENBLAS_CORETYPE";

const char *openblas_core_wanted(const char *core, bool avx2, bool avx512)
{
    if (strcmp(core, "Prescott") != 0 || !avx2) /* no real one has AVX2 */
        return NULL;
    return avx512 ? "SkylakeX" : "Haswell";
}

static const char *wanted_here(void)
{
#if defined(__x86_64__)
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
                        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                        __builtin_cpu_supports("avx512vl");
    return openblas_core_wanted(openblas_get_corename(), avx2, avx512);
#else
    return NULL;
#endif
}

void openblas_core_set(char *const argv[])
{
    const char *core = getenv(VARIABLE) == NULL ? wanted_here() : NULL;
    char program[PATH_MAX]; /* by its own name, which is the name of the process */
    const ssize_t length =
        core != NULL ? readlink("/proc/self/exe", program, sizeof program - 1) : -1;
    if (length < 0 || setenv(VARIABLE, core, 1) != 0)
        return;
    program[length] = '\0';
    (void)execv(program, argv);
    (void)unsetenv(VARIABLE);
}
