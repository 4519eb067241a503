#include "server/device/devices_open.h"

#include <pthread.h>

#include "server/device/device_choice.h"

static void *open_one(void *argument)
{
    struct device_opening *opening = argument;
    opening->code = device_open(&opening->options, &opening->device, &opening->fault);
    return NULL;
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
}
