#include "client/record.h"

#include <string.h>

bool record_read(void *known, size_t known_bytes, const void *given, size_t given_bytes,
                 size_t least)
{
    if (given_bytes < least)
        return false;
    for (size_t i = known_bytes; i < given_bytes; i++)
        if (((const char *)given)[i] != 0)
            return false;
    memcpy(known, given, given_bytes < known_bytes ? given_bytes : known_bytes);
    memcpy(known, &known_bytes, sizeof known_bytes);
    return true;
}

void record_write(void *given, size_t given_bytes, const void *known, size_t known_bytes)
{
    memset(given, 0, given_bytes);
    memcpy(given, known, given_bytes < known_bytes ? given_bytes : known_bytes);
    if (given_bytes >= sizeof given_bytes)
        memcpy(given, &given_bytes, sizeof given_bytes);
}
