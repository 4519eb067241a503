/* Options: lines that begin with a dash, or follow the first of them, are arguments; lines before
 * that begin with GEMMD_ are environment variables, and the others are the configuration file. What
 * is accepted is printed by --check-config as a file that means the same. */
#include <string.h>
#include <unistd.h>

#include "fuzz.h"
#include "input.h"
#include "server/config/config.h"

enum { LIST_MAX = 64 };

struct options {
    char *arguments[LIST_MAX + 4], *environment[LIST_MAX + 1];
    int argument_count, variable_count;
    char file[4096];
    size_t file_bytes;
};

static void read_line(struct options *options, char *line)
{
    const size_t length = strlen(line);
    if ((line[0] == '-' || options->argument_count > 1) && options->argument_count < LIST_MAX) {
        options->arguments[options->argument_count++] = line;
        return;
    }
    if (strncmp(line, "GEMMD_", 6) == 0 && options->variable_count < LIST_MAX) {
        options->environment[options->variable_count++] = line;
        return;
    }
    if (length + 1 < sizeof options->file - options->file_bytes) {
        memcpy(options->file + options->file_bytes, line, length);
        options->file_bytes += length;
        options->file[options->file_bytes++] = '\n';
    }
    free(line);
}

static char *print(const struct config *config)
{
    json_t *json = config_to_json(config);
    char *text = json_dumps(json, JSON_INDENT(2));
    MUST(json != NULL && text != NULL);
    json_decref(json);
    return text;
}

static void check_printed(const struct config *config)
{
    struct config again = {.io_threads = 0};
    struct fault fault = {.code = GEMMD_OK};
    char path[INPUT_PATH_MAX], program[] = "gemmd", option[] = "--config", *none = NULL;
    char *text = print(config);
    const int fd = input_file((const uint8_t *)text, strlen(text), path);
    char *arguments[] = {program, option, path, NULL};
    if (config_load(&again, 3, arguments, &none, &fault) != GEMMD_OK)
        fprintf(stderr, "%s\n%s\n", fault.detail, text);
    MUST(fault.code == GEMMD_OK);
    char *same = print(&again);
    MUST(strcmp(text, same) == 0);
    free(same);
    free(text);
    config_free(&again);
    close(fd);
}

static void check_reload(const struct config *config, const struct options *options)
{
    static struct config next;
    static struct config_changes changes;
    const struct config_reload reload = {.given = config,
                                         .running = config,
                                         .argc = options->argument_count,
                                         .argv = options->arguments,
                                         .environment = options->environment};
    struct fault fault = {.code = GEMMD_OK};
    MUST(config_reload(&reload, &next, &changes, &fault) == GEMMD_OK && changes.count == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct fuzz_input input = {bytes, length};
    struct options options = {.argument_count = 1};
    struct config config = {.io_threads = 0};
    struct fault fault = {.code = GEMMD_OK};
    char path[INPUT_PATH_MAX], program[] = "gemmd", file_option[] = "--config";
    int fd = -1, own_count;
    options.arguments[0] = program;
    while (input.length > 0)
        read_line(&options, input_text(&input, '\n'));
    own_count = options.argument_count;
    if (options.file_bytes > 0) {
        /* Before the others, since an argument may end the options. */
        fd = input_file((const uint8_t *)options.file, options.file_bytes, path);
        memmove(options.arguments + 3, options.arguments + 1,
                (size_t)(own_count - 1) * sizeof options.arguments[0]);
        options.arguments[1] = file_option;
        options.arguments[2] = path;
        options.argument_count += 2;
    }
    const enum gemmd_error code = config_load(&config, options.argument_count, options.arguments,
                                              options.environment, &fault);
    if (code != GEMMD_OK) {
        MUST(fault.code == code && fault.detail[0] != '\0');
    } else if (config.action == CONFIG_RUN || config.action == CONFIG_CHECK) {
        check_printed(&config);
        check_reload(&config, &options);
    }
    config_free(&config);
    for (int i = options.file_bytes > 0 ? 3 : 1; i < options.argument_count; i++)
        free(options.arguments[i]);
    for (int i = 0; i < options.variable_count; i++)
        free(options.environment[i]);
    if (fd >= 0)
        close(fd);
    return 0;
}
