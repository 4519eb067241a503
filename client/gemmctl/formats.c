#include "client/gemmctl/formats.h"

#include <stdio.h>
#include <string.h>

#include "client/gemmctl/input.h"

static bool read_format(const struct arguments *arguments, enum option_id id, enum format *format,
                        bool *given, char problem[PROBLEM_MAX])
{
    const char *name =
        arguments->values[id] != NULL ? arguments->values[id] : arguments->values[OPTION_FORMAT];
    if (name == NULL)
        return true;
    *given = format_from_name(name, format);
    if (!*given)
        snprintf(problem, PROBLEM_MAX,
                 "'%.64s' is not a format; it must be npy, safetensors or raw", name);
    return *given;
}

bool formats_read(const struct arguments *arguments, struct formats *formats,
                  char problem[PROBLEM_MAX])
{
    *formats = (struct formats){0};
    return read_format(arguments, OPTION_IN_FORMAT, &formats->in, &formats->in_given, problem) &&
           read_format(arguments, OPTION_OUT_FORMAT, &formats->out, &formats->out_given, problem);
}

enum format formats_in(const struct formats *formats, const char *path, enum format otherwise)
{
    enum format format = otherwise;
    if (formats->in_given)
        return formats->in;
    format_of_path(path, &format);
    return format;
}

enum format formats_out(const struct formats *formats, const char *path, enum format otherwise)
{
    enum format format = otherwise;
    if (formats->out_given)
        return formats->out;
    format_of_path(path, &format);
    return format;
}

/* The suffix of a file's name, from the last dot on; NULL: the name has none. */
static const char *suffix_of(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    return dot != NULL && dot != name && dot[1] != '\0' ? dot : NULL;
}

int formats_check_name(const struct context *context, const struct formats *formats,
                       const char *path)
{
    char problem[PROBLEM_MAX];
    enum format format;
    const char *suffix = suffix_of(path);
    if (formats->out_given || suffix == NULL || format_of_path(path, &format))
        return EXIT_OK;
    snprintf(problem, sizeof problem,
             "no format has the suffix '%.16s' of %.80s; name a file that ends in .npy, "
             ".safetensors, .bin or .raw, or choose a format with --format",
             suffix, path);
    return fail_usage(context, problem);
}

int formats_check_stream(const struct context *context, const char *path)
{
    bool standard = strcmp(path, "-") == 0;
    if (standard && option_flag(context->arguments, OPTION_JSON))
        return fail_usage(context,
                          "--json prints to standard output; name a file for the result with "
                          "--output");
    if (standard && context->terminal.out_is_tty)
        return fail_usage(context,
                          "the result is binary and standard output is a terminal; name a file "
                          "with --output, or use a pipe");
    return EXIT_OK;
}
