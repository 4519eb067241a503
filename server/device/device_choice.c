#include "server/device/device_choice.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "proto/number.h"
#include "server/device/device.h"
#include "server/device/device_ops.h"

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
