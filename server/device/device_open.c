#include "server/device/device_open.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "proto/number.h"
#include "server/base/clock.h"
#include "server/device/device_ops.h"
#include "server/device/self_test.h"

/* ---- the devices that the operator has chosen ---- */

/* The shortest start of a UUID that may stand for it: "GPU-" or "MIG-", and four digits. */
enum { UUID_START_MIN = 8 };

static bool is_uuid(const char *word)
{
    return strncasecmp(word, "GPU-", 4) == 0 || strncasecmp(word, "MIG-", 4) == 0;
}

void device_choice_show(const char *text)
{
    if (getenv("CUDA_VISIBLE_DEVICES") == NULL && strncasecmp(text, "MIG-", 4) == 0)
        (void)setenv("CUDA_VISIBLE_DEVICES", text, 1);
}

/* The devices of a backend that the host has. */
struct host_devices {
    enum gemm_backend backend;
    uint32_t count;
};

/* Finds the device whose UUID starts with `word`. CUDA gives an instance of a divided GPU a UUID
 * that starts with "GPU" too, so only the part after the prefix is compared. */
static enum gemmd_error find_uuid(const struct host_devices *host, const char *word, int32_t *index,
                                  struct fault *fault)
{
    const size_t length = strlen(word);
    uint32_t found = 0;
    for (uint32_t i = 0; i < host->count && length >= UUID_START_MIN; i++) {
        char uuid[DEVICE_UUID_SIZE];
        if (!device_uuid(host->backend, (int32_t)i, uuid) ||
            strncasecmp(uuid + 4, word + 4, length - 4) != 0)
            continue;
        *index = (int32_t)i;
        found++;
    }
    if (found == 1)
        return GEMMD_OK;
    return fault_set(fault, GEMMD_ERR_DEVICE_LOST, "devices", "%s has the UUID %.60s (--devices)",
                     found > 1 ? "more than one device of this host" : "no device of this host",
                     word);
}

static enum gemmd_error find_word(const struct host_devices *host, const char *word, int32_t *index,
                                  struct fault *fault)
{
    uint64_t number;
    if (is_uuid(word))
        return find_uuid(host, word, index, fault);
    if (!number_u64(word, &number) || number > INT32_MAX)
        return fault_set(fault, GEMMD_ERR_USAGE, "devices",
                         "--devices has \"%.60s\"; a device is named by its number or its UUID",
                         word);
    if (number >= host->count)
        return fault_set(fault, GEMMD_ERR_DEVICE_LOST, "devices",
                         "device %" PRIu64 " was asked for (--devices); this host has %" PRIu32
                         ", and their numbers begin at 0",
                         number, host->count);
    *index = (int32_t)number;
    return GEMMD_OK;
}

static enum gemmd_error add_device(struct device_choice *choice, int32_t index, const char *word,
                                   struct fault *fault)
{
    for (uint32_t i = 0; i < choice->count; i++)
        if (choice->index[i] == index)
            return fault_set(fault, GEMMD_ERR_USAGE, "devices",
                             "--devices names device %" PRId32 " twice (\"%.60s\")", index, word);
    if (choice->count == DEVICES_MAX)
        return fault_set(fault, GEMMD_ERR_USAGE, "devices", "--devices names more than %d devices",
                         (int)DEVICES_MAX);
    choice->index[choice->count++] = index;
    return GEMMD_OK;
}

static void choose_first(struct device_choice *choice, uint32_t count)
{
    choice->count = count < DEVICES_MAX ? count : DEVICES_MAX;
    for (uint32_t i = 0; i < choice->count; i++)
        choice->index[i] = (int32_t)i;
}

static enum gemmd_error choose_cpus(const char *text, struct device_choice *choice,
                                    struct fault *fault)
{
    uint64_t count = 1;
    if (strcmp(text, "all") != 0 && (!number_u64(text, &count) || count > DEVICES_MAX))
        return fault_set(fault, GEMMD_ERR_USAGE, "devices",
                         "--devices is \"%.60s\"; the CPU backend takes a number from 1 to %d, the "
                         "number of devices that the host's cores are divided into",
                         text, (int)DEVICES_MAX);
    choose_first(choice, count > 0 ? (uint32_t)count : 1);
    return GEMMD_OK;
}

enum gemmd_error device_choice_read(enum gemm_backend backend, const char *text,
                                    struct device_choice *choice, struct fault *fault)
{
    struct host_devices host = {.backend = backend};
    *choice = (struct device_choice){.count = 0};
    if (backend == GEMM_BACKEND_CPU)
        return choose_cpus(text, choice, fault);
    enum gemmd_error code = device_count(backend, &host.count, fault);
    if (code != GEMMD_OK)
        return code;
    if (strcmp(text, "all") == 0) {
        choose_first(choice, host.count);
        return GEMMD_OK;
    }
    char *words = strdup(text), *rest = words;
    if (words == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the options");
    for (char *word; code == GEMMD_OK && (word = strsep(&rest, ",")) != NULL;) {
        int32_t index = 0;
        code = find_word(&host, word, &index, fault);
        if (code == GEMMD_OK)
            code = add_device(choice, index, word, fault);
    }
    free(words);
    return code;
}

/* ---- opening and closing ---- */

enum gemmd_error device_count(enum gemm_backend backend, uint32_t *count, struct fault *fault)
{
    if (backend == GEMM_BACKEND_CUDA)
        return device_cuda_count(count, fault);
    *count = 1;
    return GEMMD_OK;
}

bool device_uuid(enum gemm_backend backend, int32_t index, char uuid[DEVICE_UUID_SIZE])
{
    return backend == GEMM_BACKEND_CUDA && device_cuda_uuid(index, uuid);
}

enum gemmd_error device_open(const struct device_options *options, struct device **device,
                             struct fault *fault)
{
    struct device *opened = NULL;
    const uint64_t begun_ns = clock_now_ns();
    enum gemmd_error code = options->backend == GEMM_BACKEND_CUDA
                                ? device_cuda_open(options, &opened, fault)
                                : device_cpu_open(options, &opened, fault);
    const uint64_t opened_ns = clock_now_ns();
    if (code == GEMMD_OK)
        code = self_test(opened, options->without_kernels, fault);
    const uint64_t tested_ns = clock_now_ns();
    if (code == GEMMD_OK && opened->ops->warm != NULL)
        code = opened->ops->warm(opened, fault);
    if (code != GEMMD_OK) {
        device_close(opened);
        return code;
    }
    opened->info.open_ns = opened_ns - begun_ns;
    opened->info.test_ns = tested_ns - opened_ns;
    opened->info.warm_ns = clock_now_ns() - tested_ns;
    *device = opened;
    return GEMMD_OK;
}

bool device_connect(struct device *device, const struct device *other)
{
    return device->ops->connect == NULL || device->ops->connect(device, other);
}

void device_close(struct device *device)
{
    if (device == NULL)
        return;
    assert(device->busy == 0);
    device->ops->close(device);
}

static void *open_one(void *argument)
{
    struct device_opening *opening = argument;
    opening->code = device_open(&opening->options, &opening->device, &opening->fault);
    return NULL;
}

/* CPU devices with as many threads are equally fast: each gets the highest rates that one of them
 * has measured, since other programs may have had the cores of a device while it measured, and a
 * device that is taken for a slow one gets less work for as long as the daemon runs. */
static void agree_on_peaks(struct device_opening openings[], uint32_t count)
{
    for (uint32_t i = 0; i < count * count; i++) {
        const struct device_opening *one = &openings[i / count], *other = &openings[i % count];
        if (one->code != GEMMD_OK || other->code != GEMMD_OK ||
            one->options.backend != GEMM_BACKEND_CPU ||
            one->options.cpu_threads != other->options.cpu_threads)
            continue;
        struct device_info *info = &one->device->info;
        const struct device_info *measured = &other->device->info;
        for (uint32_t dtype = 0; dtype < GEMMD_DTYPE_COUNT; dtype++)
            info->peak_flops[dtype] = fmax(info->peak_flops[dtype], measured->peak_flops[dtype]);
        info->peak_memory_bytes = fmax(info->peak_memory_bytes, measured->peak_memory_bytes);
    }
}

void devices_open(struct device_opening openings[], uint32_t count)
{
    pthread_t threads[DEVICES_MAX];
    bool started[DEVICES_MAX] = {false};
    for (uint32_t i = 0; i < count; i++)
        openings[i].device = NULL;
    for (uint32_t i = 1; i < count; i++)
        started[i] = pthread_create(&threads[i], NULL, open_one, &openings[i]) == 0;
    for (uint32_t i = 0; i < count; i++)
        if (!started[i])
            (void)open_one(&openings[i]);
    for (uint32_t i = 1; i < count; i++)
        if (started[i])
            (void)pthread_join(threads[i], NULL);
    agree_on_peaks(openings, count);
}
