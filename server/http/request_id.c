#include "server/http/request_id.h"

#include <stdbool.h>
#include <string.h>

#include "server/base/random_id.h"

void request_id_choose(char id[REQUEST_ID_MAX + 1], const char *given, uint64_t *state)
{
    size_t length = given == NULL ? 0 : strlen(given);
    bool usable = length > 0 && length <= REQUEST_ID_MAX;
    for (size_t i = 0; usable && i < length; i++)
        usable = given[i] > ' ' && given[i] < 0x7f;
    if (usable) {
        memcpy(id, given, length + 1);
        return;
    }
    random_id(id, state);
}
