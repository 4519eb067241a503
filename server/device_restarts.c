#include "server/device_restarts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/number.h"

enum { NUMBER_MAX = 24, FIELDS = 1 + DEVICE_RESTARTS_MAX };

struct device_restarts device_restarts_read(const char *value)
{
    uint64_t fields[FIELDS] = {0};
    char number[NUMBER_MAX];
    for (int i = 0; value != NULL && i < FIELDS; i++) {
        const size_t length = strcspn(value, ",");
        if (length >= sizeof number)
            return (struct device_restarts){0};
        memcpy(number, value, length);
        number[length] = '\0';
        if (!number_u64(number, &fields[i]))
            return (struct device_restarts){0};
        value = value[length] == ',' ? value + length + 1 : NULL;
    }
    struct device_restarts restarts = {.count = fields[0]};
    memcpy(restarts.at_ns, fields + 1, sizeof restarts.at_ns);
    return restarts;
}

bool device_restarts_allowed(const struct device_restarts *restarts, uint64_t now_ns)
{
    const uint64_t oldest_ns = restarts->at_ns[DEVICE_RESTARTS_MAX - 1];
    /* A restart of the system sets the monotonic clock back, so that `oldest_ns` may lie in the
     * future. */
    return oldest_ns == 0 || oldest_ns > now_ns ||
           now_ns - oldest_ns > DEVICE_RESTARTS_PERIOD_S * UINT64_C(1000000000);
}

bool device_restarts_add(struct device_restarts *restarts, uint64_t now_ns)
{
    char text[FIELDS * NUMBER_MAX];
    restarts->count++;
    memmove(restarts->at_ns + 1, restarts->at_ns,
            sizeof restarts->at_ns - sizeof restarts->at_ns[0]);
    restarts->at_ns[0] = now_ns;
    int length = snprintf(text, sizeof text, "%" PRIu64, restarts->count);
    for (int i = 0; i < DEVICE_RESTARTS_MAX; i++)
        length +=
            snprintf(text + length, sizeof text - (size_t)length, ",%" PRIu64, restarts->at_ns[i]);
    return setenv(DEVICE_RESTARTS_VARIABLE, text, 1) == 0;
}
