#include "client/gemmctl/metrics_text.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One line of the text: a series and its value. */
struct series {
    const char *labels; /* behind the brace, or where the value is */
    size_t labels_length;
    double value;
};

/* Finds the next series of a metric at or behind `*at`, and moves `*at` behind its line. */
static bool next_series(const char **at, const char *name, struct series *series)
{
    const size_t length = strlen(name);
    while (**at != '\0') {
        const char *line = *at, *end = line + strcspn(line, "\n");
        *at = end + (*end == '\n');
        if (strncmp(line, name, length) != 0 || (line[length] != '{' && line[length] != ' '))
            continue;
        const char *value = line + length;
        series->labels = value;
        if (*value == '{') /* no value of a label of the daemon has a brace */
            value += strcspn(value, "}\n");
        series->labels_length = (size_t)(value - series->labels);
        value += *value == '}';
        series->value = strtod(value, NULL);
        return true;
    }
    return false;
}

static bool has_label(const struct series *series, const char *label)
{
    return label == NULL ||
           memmem(series->labels, series->labels_length, label, strlen(label)) != NULL;
}

double metrics_sum(const char *text, const char *name, const char *label)
{
    struct series series;
    double sum = 0;
    while (next_series(&text, name, &series))
        if (has_label(&series, label))
            sum += series.value;
    return sum;
}

bool metrics_has(const char *text, const char *name)
{
    struct series series;
    return next_series(&text, name, &series);
}

static double bound_of(const struct series *series)
{
    static const char le[] = "le=\"";
    const char *at = memmem(series->labels, series->labels_length, le, sizeof le - 1);
    return at != NULL ? strtod(at + sizeof le - 1, NULL) : NAN;
}

void metrics_add_buckets(const char *text, const char *name, const char *label,
                         struct metrics_buckets *buckets)
{
    char full[96];
    struct series series;
    snprintf(full, sizeof full, "%s_bucket", name);
    while (next_series(&text, full, &series)) {
        const double upper = bound_of(&series);
        if (!has_label(&series, label) || isnan(upper))
            continue;
        unsigned i = 0;
        while (i < buckets->length && buckets->upper[i] < upper)
            i++;
        if (i == buckets->length && i < METRICS_BUCKETS_MAX) {
            buckets->upper[i] = upper;
            buckets->count[i] = 0;
            buckets->length++;
        }
        if (i < METRICS_BUCKETS_MAX)
            buckets->count[i] += series.value;
    }
}

double metrics_quantile(const struct metrics_buckets *before, const struct metrics_buckets *after,
                        double share)
{
    double counts[METRICS_BUCKETS_MAX], lower = 0, below = 0;
    if (after->length == 0)
        return -1;
    for (unsigned i = 0; i < after->length; i++)
        counts[i] = after->count[i] - (i < before->length ? before->count[i] : 0);
    const double all = counts[after->length - 1], wanted = share * all;
    if (all <= 0)
        return -1;
    for (unsigned i = 0; i < after->length; i++) {
        if (counts[i] >= wanted && counts[i] > below)
            return isinf(after->upper[i])
                       ? lower
                       : lower + (after->upper[i] - lower) * (wanted - below) / (counts[i] - below);
        lower = isinf(after->upper[i]) ? lower : after->upper[i];
        below = counts[i];
    }
    return lower;
}
