/* Families and samples as text. Numbers do not depend on the locale. */
#include "server/observe/metrics_families.h"

#include <inttypes.h>
#include <string.h>

#include "server/observe/metrics_shard.h"

/* What follows the name of a family in the names of its samples; by enum metrics_type. */
static const char *const suffixes[] = {"_total", "", "", "_info"};

void metrics_family(struct metrics_writer *writer, const char *name, enum metrics_type type,
                    const char *help)
{
    static const char *const types[] = {"counter", "gauge", "histogram", "info"};
    bool open_metrics = writer->format == METRICS_OPENMETRICS;
    const char *suffix = open_metrics ? "" : suffixes[type];
    const char *word = !open_metrics && type == METRICS_INFO ? "gauge" : types[type];

    writer->name = name;
    writer->type = type;
    fprintf(writer->out, "# HELP %s%s %s\n# TYPE %s%s %s\n", name, suffix, help, name, suffix,
            word);
}

static void begin_sample(struct metrics_writer *writer, const char *labels)
{
    const char *suffix = suffixes[writer->type];
    fprintf(writer->out, "%s%s%s%s%s ", writer->name, suffix, labels[0] ? "{" : "", labels,
            labels[0] ? "}" : "");
}

void metrics_sample(struct metrics_writer *writer, const char *labels, uint64_t value)
{
    begin_sample(writer, labels);
    fprintf(writer->out, "%" PRIu64 "\n", value);
}

void metrics_sample_seconds(struct metrics_writer *writer, const char *labels, uint64_t ns)
{
    begin_sample(writer, labels);
    fprintf(writer->out, "%" PRIu64 ".%09" PRIu64 "\n", ns / 1000000000, ns % 1000000000);
}

void metrics_sample_real(struct metrics_writer *writer, const char *labels, double value)
{
    begin_sample(writer, labels);
    fprintf(writer->out, "%.17g\n", value);
}

/* Bounds keep a decimal point ("1.0"), as OpenMetrics wants them, in both formats, so that series
 * don't change their names with the format. */
static void bound_text(uint64_t bound, uint64_t scale, char out[32])
{
    snprintf(out, 32, "%" PRIu64 ".%09" PRIu64, bound / scale,
             bound % scale * (1000000000 / scale));
    size_t length = strlen(out);
    while (out[length - 1] == '0' && out[length - 2] != '.')
        out[--length] = '\0';
}

/* ` # {trace_id="...",span_id="..."} 0.001 1763895730.5`, as OpenMetrics writes an exemplar. */
static void write_exemplar(struct metrics_writer *writer, const struct metrics_exemplar *exemplar)
{
    if (exemplar->trace_id[0] == '\0' || writer->format != METRICS_OPENMETRICS)
        return;
    fprintf(writer->out, " # {trace_id=\"%s\",span_id=\"%s\"} %" PRIu64 ".%09" PRIu64 " %.3f",
            exemplar->trace_id, exemplar->span_id, exemplar->duration_ns / 1000000000,
            exemplar->duration_ns % 1000000000, exemplar->time_seconds);
}

static void write_histogram(struct metrics_writer *writer, const char *labels,
                            const uint64_t *buckets, const uint64_t *bounds, uint32_t count,
                            uint64_t sum, uint64_t scale, const struct metrics_exemplar *exemplars)
{
    const char *comma = labels[0] ? "," : "", *open = labels[0] ? "{" : "",
               *close = labels[0] ? "}" : "";
    uint64_t cumulative = 0;
    for (uint32_t i = 0; i <= count; i++) {
        char bound[32] = "+Inf";
        if (i < count)
            bound_text(bounds[i], scale, bound);
        cumulative += buckets[i];
        fprintf(writer->out, "%s_bucket{%s%sle=\"%s\"} %" PRIu64, writer->name, labels, comma,
                bound, cumulative);
        if (exemplars != NULL)
            write_exemplar(writer, &exemplars[i]);
        fputc('\n', writer->out);
    }
    char total[32];
    bound_text(sum, scale, total);
    fprintf(writer->out, "%s_sum%s%s%s %s\n", writer->name, open, labels, close, total);
    fprintf(writer->out, "%s_count%s%s%s %" PRIu64 "\n", writer->name, open, labels, close,
            cumulative);
}

void metrics_sample_histogram(struct metrics_writer *writer, const char *labels,
                              const uint64_t *buckets, const uint64_t *bounds, uint32_t count,
                              uint64_t sum, uint64_t scale)
{
    write_histogram(writer, labels, buckets, bounds, count, sum, scale, NULL);
}

void metrics_sample_times(struct metrics_writer *writer, const char *labels,
                          const uint64_t *buckets, const uint64_t *bounds, uint32_t count,
                          uint64_t sum, const struct metrics_exemplar *exemplars)
{
    write_histogram(writer, labels, buckets, bounds, count, sum, 1000000000, exemplars);
}

void metrics_label(char *out, size_t capacity, const char *value)
{
    size_t length = 0;
    for (; *value && length + 3 <= capacity; value++) {
        if (*value == '"' || *value == '\\' || *value == '\n')
            out[length++] = '\\';
        out[length++] = *value == '\n' ? 'n' : *value;
    }
    out[length] = '\0';
}
