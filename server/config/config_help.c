/* config_help.c - prints the text of --help, which is made from the table of options. */
#include <string.h>

#include "server/config/config_option.h"

enum { INDENT = 10, WIDTH = 80 };

/* Prints a text wrapped at WIDTH. `column` is how far the current line is filled already; returns
 * how far the last line is filled afterwards. */
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
        column = print_wrapped(out, column, text);
    }
    if (option->reloadable)
        print_wrapped(out, column, CONFIG_RELOADABLE_TEXT);
    fputc('\n', out);
}

void config_print_help(FILE *out)
{
    fputs("gemmd is a server that multiplies matrices on a GPU or on the CPU. Clients send\n"
          "the operands with POST requests and are answered with the product.\n"
          "\n"
          "Examples:\n"
          "  gemmd\n"
          "          Serve on 127.0.0.1:8080, on a GPU if there is one.\n"
          "  gemmd --listen 0.0.0.0:8080 --token-file tokens\n"
          "          Serve the network, to clients that have a bearer token.\n"
          "  gemmd --listen unix:gemmd.sock --backend cpu --cpu-threads 8\n"
          "          Serve this host only, over a Unix socket, on 8 cores.\n"
          "  gemmd --config gemmd.json --check-config\n"
          "          Check the options in a file and print those in force.\n"
          "\n"
          "Every option can be given in three places: as a flag (--queue-requests 64), as\n"
          "an environment variable (GEMMD_QUEUE_REQUESTS=64) or as a key of the --config\n"
          "file (\"queue-requests\": 64). Flags win over the environment, the environment\n"
          "wins over the file. --config itself is for flags and the environment, and\n"
          "--check-config, --help and --version are flags only. A variable that starts with\n"
          "GEMMD_ and belongs to no option is an error, except those of clients\n"
          "(GEMMD_URL, GEMMD_TOKEN, GEMMD_CA_FILE, GEMMD_CERT_FILE, GEMMD_KEY_FILE),\n"
          "GEMMD_VERSION, and those that Kubernetes sets for services called gemmd or\n"
          "gemmd-NAME.\n"
          "\n"
          "An option marked Reloadable takes a new value from the --config file when the\n"
          "daemon receives SIGHUP. A new value of any other option needs a new process,\n"
          "which SIGUSR2 starts without refusing a connection.\n"
          "\n"
          "SIZE is a number of bytes, or a number with one of the units K, M, G and T,\n"
          "which are powers of 1024. TIME is a number of milliseconds, or a number with one\n"
          "of the units ms, s, m and h.\n",
          out);
    for (int group = 0; group < CONFIG_GROUP_COUNT; group++) {
        fprintf(out, "\n%s:\n", config_group_title((enum config_group)group));
        for (uint32_t i = 0; i < config_option_count; i++) {
            if (config_options[i].group == (enum config_group)group)
                print_option(out, &config_options[i]);
        }
    }
}
