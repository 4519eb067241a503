#include "proto/size_text.h"

#include <inttypes.h>
#include <stdio.h>

struct size_text size_text(uint64_t bytes)
{
    static const char units[] = "KMGTPE";
    struct size_text out;
    int unit = -1;
    while (unit + 1 < (int)sizeof units - 1 && bytes >> 10 * (unit + 2) > 0)
        unit++;
    if (unit < 0) {
        snprintf(out.text, sizeof out.text, "%" PRIu64 " byte%s", bytes, bytes == 1 ? "" : "s");
        return out;
    }
    const uint64_t one = UINT64_C(1) << 10 * (unit + 1);
    const double value = (double)bytes / (double)one;
    if (bytes % one == 0)
        snprintf(out.text, sizeof out.text, "%" PRIu64 " %ciB", bytes / one, units[unit]);
    else
        snprintf(out.text, sizeof out.text, "%.*f %ciB (%" PRIu64 " bytes)",
                 value < 10    ? 2
                 : value < 100 ? 1
                               : 0,
                 value, units[unit], bytes);
    return out;
}

struct size_text size_work_text(double operations)
{
    static const char *const units[] = {"", "k", "M", "G", "T", "P", "E"};
    struct size_text out;
    size_t unit = 0;
    while (unit + 1 < sizeof units / sizeof units[0] && operations >= 1000) {
        operations /= 1000;
        unit++;
    }
    snprintf(out.text, sizeof out.text, "%.6g %sFLOP", operations, units[unit]);
    return out;
}
