/* config_help.c - the text of --help, made from the table. */
#include <string.h>

#include "server/config/config_option.h"

enum { INDENT = 10, WIDTH = 80 };

/* Words of a sentence, wrapped at WIDTH; `column` is where the line stands now. */
static size_t print_wrapped(FILE *out, size_t column, const char *text)
{
    while (*text) {
        size_t length = strcspn(text, " ");
        if (column > INDENT && column + 1 + length >= WIDTH) {
            fprintf(out, "\n%*s", INDENT, "");
            column = INDENT;
        } else if (column > INDENT) {
            fputc(' ', out);
            column++;
        }
        fwrite(text, 1, length, out);
        column += length;
        text += length;
        text += strspn(text, " ");
    }
    return column;
}

static void print_option(FILE *out, const struct config_option *option)
{
    if (option->kind == CONFIG_KIND_SWITCH)
        fprintf(out, "  --%s, --no-%s\n", option->name, option->name);
    else
        fprintf(out, "  --%s%s%s\n", option->name, option->placeholder ? " " : "",
                option->placeholder ? option->placeholder : "");
    fprintf(out, "%*s", INDENT, "");
    size_t column = print_wrapped(out, INDENT, option->help);
    if (option->standard) {
        char text[CONFIG_TEXT_MAX];
        snprintf(text, sizeof(text), "Default: %s.", option->standard);
        print_wrapped(out, column, text);
    }
    fputc('\n', out);
}

void config_print_help(FILE *out)
{
    fputs("gemmd multiplies matrices that are POSTed to it, on a GPU or on the CPU.\n"
          "\n"
          "Examples:\n"
          "  gemmd\n"
          "          Serve on 127.0.0.1:8080, on a GPU if there is one.\n"
          "  gemmd --listen 0.0.0.0:8080 --token-file tokens\n"
          "          Serve the network; clients need a bearer token.\n"
          "  gemmd --listen unix:gemmd.sock --backend cpu --cpu-threads 8\n"
          "          Serve this host only, through a socket, on 8 cores.\n"
          "  gemmd --config gemmd.json --check-config\n"
          "          Say what would be in force, and why not if something is wrong.\n"
          "\n"
          "--queue-requests N is also GEMMD_QUEUE_REQUESTS=N in the environment and\n"
          "\"queue-requests\": N in the --config file; flags win over the environment, the\n"
          "environment over the file. SIZE takes K, M, G, T (powers of 1024; a bare number\n"
          "is bytes), TIME takes ms, s, m, h (a bare number is milliseconds).\n",
          out);
    for (int group = 0; group < CONFIG_GROUP_COUNT; group++) {
        fprintf(out, "\n%s:\n", config_group_title((enum config_group)group));
        for (uint32_t i = 0; i < config_option_count; i++) {
            if (config_options[i].group == (enum config_group)group)
                print_option(out, &config_options[i]);
        }
    }
}
