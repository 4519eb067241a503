/*
 * gemmd - the daemon's main program: reads the options, starts the daemon, serves, and drains.
 *
 * Exit status: 0 after a drain, or after --help, --version or --check-config; 1 if the daemon could
 * not start, its device was lost too often, or --check-config found that the daemon could not
 * start; 2 for invalid options.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "kernels/cpu/openblas_core.h"
#include "proto/revision.h"
#include "server/daemon.h"
#include "server/memory_needs.h"
#include "server/net/handover.h"
#include "server/observe/log.h"

extern char **environ;

static int print_config(const struct config *config)
{
    json_t *json = config_to_json(config);
    char *text = json == NULL ? NULL : json_dumps(json, JSON_INDENT(2));
    json_decref(json);
    if (text == NULL)
        return EXIT_FAILURE;
    puts(text);
    free(text);
    return EXIT_SUCCESS;
}

/* Makes the exit status of --help, --version and --check-config a failure if their output could not
 * be written, since output is all that they are for. */
static int finish_output(int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    fputs("gemmd: standard output could not be written\n", stderr);
    return EXIT_FAILURE;
}

/* Opens /dev/null for each standard descriptor that is closed at the start. Otherwise the daemon's
 * first sockets would get the numbers 0 to 2, and messages on stderr would be written to a socket.
 * libuv also aborts a process that opens a socket below 3. */
static bool fill_standard_descriptors(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDONLY); /* writing fails, as to a closed descriptor */
    while (fd >= 0 && fd <= STDERR_FILENO);
    return fd >= 0 && close(fd) == 0;
}

/* Writes the option to change after a failed start, " (--listen)", unless the message names the
 * option already. */
static void name_option(const struct fault *fault, char *out, size_t capacity)
{
    snprintf(out, capacity, " (--%s)", fault->field);
    char option[sizeof fault->field + 8];
    snprintf(option, sizeof option, "--%s", fault->field);
    if (fault->field[0] == '\0' || strstr(fault->detail, option) != NULL)
        out[0] = '\0';
}

/* Writes to standard error what the options allow, and why a daemon could not start with them. */
static int report_check(struct daemon *daemon)
{
    struct fault fault = {.code = GEMMD_OK};
    char warning[TLS_WARNING_MAX], option[sizeof fault.field + 8];
    memory_needs_print(&daemon->config, stderr);
    if (daemon_check(daemon, warning, &fault) != GEMMD_OK) {
        name_option(&fault, option, sizeof option);
        fprintf(stderr, "gemmd: %s%s\n", fault.detail, option);
        return EXIT_FAILURE;
    }
    if (warning[0] != '\0')
        fprintf(stderr, "gemmd: warning: %s\n", warning);
    return EXIT_SUCCESS;
}

static int serve(struct daemon *daemon)
{
    struct fault fault = {.code = GEMMD_OK};
    int status = EXIT_SUCCESS;
    daemon->log = log_create(daemon->config.log_level, daemon->config.log_format);
    if (daemon->log == NULL) {
        fputs("gemmd: there is no memory, no thread or no file descriptor for the log\n", stderr);
        return EXIT_FAILURE;
    }
    log_event(daemon->log, CONFIG_LOG_INFO, "gemmd " GEMMD_VERSION " (%s), pid %d", gemmd_revision,
              (int)getpid());
    if (daemon_start(daemon, &fault) == GEMMD_OK) {
        if (!daemon_run(daemon))
            status = EXIT_FAILURE;
    } else {
        char option[sizeof fault.field + 8];
        name_option(&fault, option, sizeof option);
        log_event(daemon->log, CONFIG_LOG_ERROR, "cannot start: %s%s", fault.detail, option);
        fprintf(stderr, "gemmd: %s%s\n", fault.detail, option);
        handover_tell_failure(fault.detail);
        status = EXIT_FAILURE;
    }
    if (!daemon_stop(daemon)) {
        log_sync(daemon->log);
        _exit(status); /* the device still computes: its memory must not be freed */
    }
    log_destroy(daemon->log);
    return status;
}

/* Whether a limit of the process (ulimit -v) may leave its libraries without memory. */
static bool limits_memory(void)
{
    struct rlimit addresses;
    return getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur != RLIM_INFINITY;
}

/* Ends the process without the destructors of libraries if it has failed or if its memory is
 * limited. The destructor of OpenBLAS waits for OpenBLAS's threads, and a thread that gets no
 * memory for its buffer tries for ever. */
static void end_without_destructors(int status)
{
    if (status != EXIT_SUCCESS || limits_memory())
        _exit(status);
}

int main(int argc, char *argv[])
{
    static struct daemon daemon; /* zeroed */
    struct fault fault;
    int status = EXIT_SUCCESS;

    /* openblas_core_set may execute the program again, so it is called before anything is read: a
     * configuration file may be a pipe, which can be read only once. */
    openblas_core_set(argv);
    if (!fill_standard_descriptors()) {
        fputs("gemmd: /dev/null cannot be opened\n", stderr);
        end_without_destructors(EXIT_FAILURE);
    }
    daemon.services.revision = gemmd_revision;
    daemon.argc = argc;
    daemon.argv = argv;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a log file at its size limit must not end the daemon */
    if (config_load(&daemon.config, argc, argv, environ, &fault) != GEMMD_OK) {
        fprintf(stderr, "gemmd: %s\n", fault.detail);
        handover_tell_failure(fault.detail);
        config_free(&daemon.config);
        end_without_destructors(2);
    }
    switch (daemon.config.action) {
    case CONFIG_HELP:
        config_print_help(stdout);
        break;
    case CONFIG_VERSION:
        printf("gemmd " GEMMD_VERSION " (%s)\n", gemmd_revision);
        break;
    case CONFIG_CHECK:
        status = print_config(&daemon.config);
        break;
    case CONFIG_RUN:
        status = serve(&daemon);
        break;
    }
    if (daemon.config.action != CONFIG_RUN)
        status = finish_output(status);
    /* The JSON on standard output stays a valid --config file. */
    if (daemon.config.action == CONFIG_CHECK && status == EXIT_SUCCESS)
        status = report_check(&daemon);
    config_free(&daemon.config);
    end_without_destructors(status);
    return status;
}
