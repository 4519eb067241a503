#include "server/http/request_id.h"

#include <stdbool.h>
#include <string.h>

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
    /* splitmix64 (S. Vigna). Ids in a log must be unique, but need not be hard to guess. */
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    for (int i = 0; i < 16; i++, z <<= 4)
        id[i] = "0123456789abcdef"[z >> 60];
    id[16] = '\0';
}
