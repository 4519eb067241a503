/* gemmctl info, metrics, ready, ping and version. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/gemmctl/command.h"
#include "client/gemmctl/print.h"
#include "client/gemmctl/units.h"

/* ---- gemmctl info: the daemon's description of itself, as lines for people or as JSON ---- */

enum { DEPTH_MAX = 8 };

/* Returns whether the name of a value says that its unit is bytes. */
static bool is_bytes(const char *name)
{
    size_t length =
        strlen(name); /* "memory_total_bytes" of a device, "pinned-bytes" of the limits */
    return length > 6 && strcmp(name + length - 5, "bytes") == 0;
}

static void print_scalar(const char *name, const json_t *value)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    if (json_is_string(value)) {
        (void)terminal_put(json_string_value(value), stdout);
    } else if (json_is_integer(value)) {
        json_int_t number = json_integer_value(value);
        double scaled = (double)number;
        int unit = -1;
        printf("%" JSON_INTEGER_FORMAT, number);
        for (; is_bytes(name) && scaled >= 1024 && unit < 3; unit++)
            scaled /= 1024;
        if (unit >= 0)
            printf(" (%.1f %s)", scaled, units[unit]);
    } else if (json_is_real(value)) {
        printf("%.3f", json_real_value(value));
    } else {
        printf("%s", json_is_true(value) ? "yes" : json_is_false(value) ? "no" : "none");
    }
}

static bool is_scalar(const json_t *value)
{
    return !json_is_object(value) && !json_is_array(value);
}

static bool is_list_of_scalars(const json_t *value)
{
    size_t i;
    json_t *item;
    if (!json_is_array(value))
        return false;
    json_array_foreach(value, i, item) if (!is_scalar(item)) return false;
    return true;
}

static void print_list(const char *name, const json_t *list)
{
    size_t i;
    json_t *item;
    if (json_array_size(list) == 0)
        printf("none");
    json_array_foreach(list, i, item)
    {
        printf("%s", i > 0 ? ", " : "");
        print_scalar(name, item);
    }
}

static void print_object(json_t *object, int depth, bool color);

static void print_entry(const char *name, json_t *value, int depth, bool color)
{
    int indent = depth * 2;
    if (is_scalar(value) || is_list_of_scalars(value)) {
        printf("%*s", indent, "");
        const int free_columns = 28 - indent - (int)terminal_put(name, stdout);
        printf("%*s ", free_columns > 0 ? free_columns : 0, "");
        if (is_scalar(value))
            print_scalar(name, value);
        else
            print_list(name, value);
        putchar('\n');
        return;
    }
    if (depth == 0)
        putchar('\n');
    printf("%*s%s", indent, "", terminal_bold(color && depth == 0));
    (void)terminal_put(name, stdout);
    printf("%s\n", terminal_plain(color && depth == 0));
    if (json_is_object(value)) {
        print_object(value, depth + 1, color);
        return;
    }
    size_t i;
    json_t *item;
    json_array_foreach(value, i, item)
    {
        if (i > 0)
            putchar('\n');
        if (json_is_object(item))
            print_object(item, depth + 1, color);
        else
            print_entry("", item, depth + 1, color);
    }
}

/* Prints the members of an object: first the plain values, then arrays and objects. */
static void print_object(json_t *object, int depth, bool color)
{
    const char *name;
    json_t *value;
    if (depth == DEPTH_MAX)
        return;
    json_object_foreach(object, name, value) if (is_scalar(value) || is_list_of_scalars(value))
        print_entry(name, value, depth, color);
    json_object_foreach(object, name, value) if (!is_scalar(value) && !is_list_of_scalars(value))
        print_entry(name, value, depth, color);
}

static int print_info(const struct context *context, const char *text)
{
    json_t *info = json_loads(text, 0, NULL);
    if (!json_is_object(info)) {
        struct gemmd_error_info error = {
            .code = GEMMD_ERR_PROTOCOL,
            .message = "the daemon's answer to GET /info is not a JSON object"};
        json_decref(info);
        return fail_request(context, &error);
    }
    if (option_flag(context->arguments, OPTION_JSON))
        print_json(json_pack("{s:i, s:O}", "version", PRINT_JSON_VERSION, "info", info));
    else
        print_object(info, 0, context->terminal.out_color);
    json_decref(info);
    return EXIT_OK;
}

int command_info(const struct context *context)
{
    struct gemmd_error_info error;
    char *text;
    int code;
    struct gemmd_client *client = command_client(context, COMMAND_RETRIES, 1, &code);
    if (client == NULL)
        return code;
    if (gemmd_info(client, &text, &error) != GEMMD_OK) {
        code = fail_request(context, &error);
    } else {
        code = print_info(context, text);
        gemmd_free(text);
    }
    gemmd_client_free(client);
    return code;
}

/* ---- gemmctl metrics and gemmctl ready ---- */

/* Prints each series as a member: {"gemmd_ready": 1, ...}. Labels are part of the name. A value
 * that JSON has no number for, such as NaN, becomes null. */
static void print_series(const char *text)
{
    json_t *metrics = json_object();
    for (const char *end; *text != '\0'; text = *end != '\0' ? end + 1 : end) {
        end = text + strcspn(text, "\n");
        const char *space = memrchr(text, ' ', (size_t)(end - text));
        if (*text == '#' || space == NULL)
            continue;
        json_t *value = json_real(strtod(space + 1, NULL));
        json_object_setn_new(metrics, text, (size_t)(space - text),
                             value != NULL ? value : json_null());
    }
    print_json(json_pack("{s:i, s:o}", "version", PRINT_JSON_VERSION, "metrics", metrics));
}

int command_metrics(const struct context *context)
{
    struct gemmd_error_info error;
    char *text;
    int code;
    struct gemmd_client *client = command_client(context, COMMAND_RETRIES, 1, &code);
    if (client == NULL)
        return code;
    if (gemmd_metrics(client, &text, &error) != GEMMD_OK)
        code = fail_request(context, &error);
    else {
        if (option_flag(context->arguments, OPTION_JSON))
            print_series(text);
        else
            terminal_put_lines(text, stdout);
        gemmd_free(text);
        code = EXIT_OK;
    }
    gemmd_client_free(client);
    return code;
}

int command_ready(const struct context *context)
{
    struct gemmd_error_info error;
    int code;
    struct gemmd_client *client = command_client(context, 0, 1, &code);
    if (client == NULL)
        return code;
    if (gemmd_ready(client, NULL, &error) != GEMMD_OK) {
        code = fail_request(context, &error);
    } else {
        if (option_flag(context->arguments, OPTION_JSON))
            print_json(json_pack("{s:i, s:b}", "version", PRINT_JSON_VERSION, "ready", 1));
        else if (!option_flag(context->arguments, OPTION_QUIET))
            puts("ready");
        code = EXIT_OK;
    }
    gemmd_client_free(client);
    return code;
}

/* ---- gemmctl ping and gemmctl version ---- */

enum { PINGS = 4 };

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int compare_times(const void *one, const void *other)
{
    const double a = *(const double *)one, b = *(const double *)other;
    return a < b ? -1 : a > b;
}

/* Prints what PINGS answers took, in any order, and whether the daemon accepts work. `refusal`: the
 * reason why it does not; NULL: it does. */
static void print_ping(const struct context *context, double seconds[PINGS],
                       const struct gemmd_error_info *refusal)
{
    char best[UNITS_ROOM], median[UNITS_ROOM], worst[UNITS_ROOM];
    qsort(seconds, PINGS, sizeof seconds[0], compare_times);
    const double middle = (seconds[(PINGS - 1) / 2] + seconds[PINGS / 2]) / 2;
    if (option_flag(context->arguments, OPTION_JSON)) {
        print_json(json_pack("{s:i, s:i, s:b, s:o, s:f, s:f, s:f}", "version", PRINT_JSON_VERSION,
                             "answers", PINGS, "ready", refusal == NULL, "reason",
                             refusal == NULL ? json_null() : print_text(refusal->message),
                             "best_ms", seconds[0] * 1000, "median_ms", middle * 1000, "worst_ms",
                             seconds[PINGS - 1] * 1000));
        return;
    }
    printf("%d answers: %s at best, %s in the median, %s at worst; ", PINGS,
           units_duration(seconds[0], best), units_duration(middle, median),
           units_duration(seconds[PINGS - 1], worst));
    if (refusal == NULL)
        fputs("ready", stdout);
    else
        (void)terminal_put(refusal->message, stdout);
    putchar('\n');
}

int command_ping(const struct context *context)
{
    struct gemmd_error_info error;
    double seconds[PINGS];
    int code;
    struct gemmd_client *client = command_client(context, 0, 1, &code);
    if (client == NULL)
        return code;
    bool is_ready = true;
    code = EXIT_OK;
    /* The first answer includes the time to connect, and is not counted. */
    for (int i = -1; i < PINGS && code == EXIT_OK; i++) {
        const double start = now_s();
        is_ready = gemmd_ready(client, NULL, &error) == GEMMD_OK;
        if (i >= 0)
            seconds[i] = now_s() - start;
        /* A daemon that refuses work answers, too. */
        if (!is_ready && error.http_status != 503)
            code = fail_request(context, &error);
    }
    if (code == EXIT_OK)
        print_ping(context, seconds, is_ready ? NULL : &error);
    gemmd_client_free(client);
    return code;
}

/* Prints the versions of this side, and those of the daemon if `info` is not NULL. */
static void print_versions(const struct context *context, const json_t *info)
{
    const char *daemon = json_string_value(json_object_get(info, "version"));
    const char *revision =
        json_string_value(json_object_get(json_object_get(info, "build"), "revision"));
    if (option_flag(context->arguments, OPTION_JSON)) {
        print_json(json_pack("{s:i, s:s, s:s, s:o, s:o}", "version", PRINT_JSON_VERSION, "gemmctl",
                             GEMMD_VERSION, "libgemmd", gemmd_version(), "gemmd",
                             daemon != NULL ? print_text(daemon) : json_null(), "revision",
                             revision != NULL ? print_text(revision) : json_null()));
        return;
    }
    printf("gemmctl   %s\nlibgemmd  %s\n", GEMMD_VERSION, gemmd_version());
    if (daemon == NULL)
        return;
    fputs("gemmd     ", stdout);
    (void)terminal_put(daemon, stdout);
    if (revision != NULL) {
        fputs(" (", stdout);
        (void)terminal_put(revision, stdout);
        putchar(')');
    }
    putchar('\n');
}

int command_version(const struct context *context)
{
    struct gemmd_error_info error;
    json_t *info = NULL;
    char *text = NULL;
    int code;
    struct gemmd_client *client = command_client(context, COMMAND_RETRIES, 1, &code);
    if (client == NULL)
        return code;
    const bool answered = gemmd_info(client, &text, &error) == GEMMD_OK;
    if (answered)
        info = json_loads(text, 0, NULL);
    /* The versions of this side are known without the daemon. With --json, one object is printed:
     * the versions or the error. */
    if (answered || !option_flag(context->arguments, OPTION_JSON))
        print_versions(context, info);
    code = answered ? EXIT_OK : fail_request(context, &error);
    json_decref(info);
    gemmd_free(text);
    gemmd_client_free(client);
    return code;
}
