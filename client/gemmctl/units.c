#include "client/gemmctl/units.h"

#include <stdio.h>

const char *units_duration(double seconds, char out[UNITS_ROOM])
{
    enum { MINUTE = 60, HOUR = 3600, DAY = 86400 };
    const unsigned long long whole = seconds < 1e15 ? (unsigned long long)seconds : 0;
    if (seconds < 0.0009995)
        snprintf(out, UNITS_ROOM, "%.0fus", seconds * 1e6);
    else if (seconds < 0.9995)
        snprintf(out, UNITS_ROOM, seconds < 0.00995 ? "%.1fms" : "%.0fms", seconds * 1e3);
    else if (seconds < MINUTE)
        snprintf(out, UNITS_ROOM, seconds < 9.95 ? "%.1fs" : "%.0fs", seconds);
    else if (seconds < HOUR)
        snprintf(out, UNITS_ROOM, "%llum%02llus", whole / MINUTE, whole % MINUTE);
    else if (seconds < DAY)
        snprintf(out, UNITS_ROOM, "%lluh%02llum", whole / HOUR, whole % HOUR / MINUTE);
    else
        snprintf(out, UNITS_ROOM, "%llud%02lluh", whole / DAY, whole % DAY / HOUR);
    return out;
}

const char *units_bytes(double bytes, char out[UNITS_ROOM])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    enum { LAST = sizeof units / sizeof units[0] - 1 };
    int unit = 0;
    for (; bytes >= 1023.95 && unit < LAST; unit++)
        bytes /= 1024;
    snprintf(out, UNITS_ROOM, "%.*f %s", unit > 0 ? 1 : 0, bytes, units[unit]);
    return out;
}

static const char *units_rate(double per_second, const char *unit, char out[UNITS_ROOM])
{
    static const char *const prefixes[] = {"", "k", "M", "G", "T", "P"};
    enum { LAST = sizeof prefixes / sizeof prefixes[0] - 1 };
    int prefix = 0;
    for (; per_second >= 999.5 && prefix < LAST; prefix++)
        per_second /= 1000;
    /* Three digits in all, of a rate without a prefix none behind the point. */
    const int digits = prefix == 0 || per_second >= 99.95 ? 0 : per_second >= 9.995 ? 1 : 2;
    snprintf(out, UNITS_ROOM, "%.*f %s%s/s", digits, per_second, prefixes[prefix], unit);
    return out;
}

const char *units_flops(double flop_per_second, char out[UNITS_ROOM])
{
    return units_rate(flop_per_second, "FLOP", out);
}

const char *units_bytes_rate(double bytes_per_second, char out[UNITS_ROOM])
{
    return units_rate(bytes_per_second, "B", out);
}
