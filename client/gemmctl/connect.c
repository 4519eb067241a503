#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "client/gemmctl/command.h"
#include "client/gemmctl/settings.h"

enum { TOKEN_MAX = 4096, TOP_TIMEOUT_MS = 5000 };

/* Reads a token from the first line of a file. As the daemon does with its own file of tokens,
 * refuses a regular file that every user can read or write. */
static bool read_token(const char *path, char token[TOKEN_MAX], char problem[PROBLEM_MAX])
{
    struct stat status;
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        snprintf(problem, PROBLEM_MAX, "%.128s cannot be read: %s", path, strerror(errno));
        return false;
    }
    if (fstat(fileno(file), &status) == 0 && S_ISREG(status.st_mode) &&
        (status.st_mode & (S_IROTH | S_IWOTH)) != 0) {
        fclose(file);
        snprintf(problem, PROBLEM_MAX,
                 "%.80s can be read or written by every user; 'chmod 600 %.80s' keeps the token "
                 "secret",
                 path, path);
        return false;
    }
    bool found = fgets(token, TOKEN_MAX, file) != NULL;
    fclose(file);
    if (found)
        token[strcspn(token, "\r\n")] = '\0';
    if (!found || token[0] == '\0') {
        snprintf(problem, PROBLEM_MAX, "the first line of %.128s is empty; it must be a token",
                 path);
        return false;
    }
    return true;
}

/* Makes a client, as command_client does, from the options and settings. */
static struct gemmd_client *make_client(const struct context *context,
                                        const struct settings *settings, uint32_t retries,
                                        uint32_t in_flight, int *exit_code)
{
    const struct arguments *arguments = context->arguments;
    struct gemmd_options client_options;
    struct gemmd_error_info error;
    char token[TOKEN_MAX], problem[PROBLEM_MAX];
    gemmd_options_init(&client_options, sizeof client_options);
    client_options.url = settings->values[SETTINGS_URL];
    client_options.ca_file = settings->values[SETTINGS_CA_FILE];
    client_options.cert_file = settings->values[SETTINGS_CERT_FILE];
    client_options.key_file = settings->values[SETTINGS_KEY_FILE];
    client_options.check_digests = option_flag(arguments, OPTION_CHECK_DIGEST);
    client_options.max_in_flight = in_flight;
    if (arguments->command->taker == FOR_TOP)
        client_options.total_timeout_ms = TOP_TIMEOUT_MS;
    const bool shm = option_flag(arguments, OPTION_SHM),
               no_shm = option_flag(arguments, OPTION_NO_SHM);
    if (shm && no_shm) {
        *exit_code = fail_usage(context, "--shm and --no-shm exclude each other; choose one");
        return NULL;
    }
    if (shm && strncmp(settings_address(settings), "unix:", 5) != 0) {
        *exit_code =
            fail_usage(context, "--shm needs the address of a Unix socket, --url unix:PATH");
        return NULL;
    }
    client_options.shared = shm      ? GEMMD_SHARED_ALWAYS
                            : no_shm ? GEMMD_SHARED_NEVER
                                     : GEMMD_SHARED_AUTO;
    const char *token_file = settings->values[SETTINGS_TOKEN_FILE];
    /* With --async, --timeout is the job's deadline, which destination_deadline reads. */
    bool is_job = option_flag(arguments, OPTION_ASYNC);
    if ((!is_job && !option_time_ms(arguments, OPTION_TIMEOUT, client_options.total_timeout_ms,
                                    &client_options.total_timeout_ms, problem)) ||
        !option_count(arguments, OPTION_RETRIES, retries, &client_options.retries, problem) ||
        (token_file != NULL && token_file[0] != '\0' && !read_token(token_file, token, problem))) {
        *exit_code = fail_usage(context, problem);
        return NULL;
    }
    if (token_file != NULL)
        client_options.token = token_file[0] != '\0' ? token : "";
    client_options.traceparent = arguments->values[OPTION_TRACEPARENT];
    if (client_options.traceparent == NULL)
        client_options.traceparent = getenv("TRACEPARENT");
    struct gemmd_client *client = gemmd_client_new(&client_options, &error);
    if (client == NULL && strcmp(error.field, "traceparent") == 0 &&
        arguments->values[OPTION_TRACEPARENT] == NULL) {
        client_options.traceparent = NULL; /* the environment's is not one */
        client = gemmd_client_new(&client_options, &error);
    }
    if (client == NULL)
        *exit_code = fail_request(context, &error);
    return client;
}

struct gemmd_client *command_client(const struct context *context, uint32_t retries,
                                    uint32_t in_flight, int *exit_code)
{
    struct settings settings;
    struct gemmd_client *client = NULL;
    char problem[PROBLEM_MAX];
    if (settings_read(&settings, context->arguments, problem))
        client = make_client(context, &settings, retries, in_flight, exit_code);
    else
        *exit_code = fail_usage(context, problem);
    settings_free(&settings);
    return client;
}
