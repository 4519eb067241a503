/* gemmctl completion: prints the script of a shell, and the names that the scripts complete. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "client/gemmctl/command.h"
#include "client/gemmctl/completion_scripts.h"
#include "client/gemmctl/settings.h"

static void print_tensor(const struct gemmd_tensor *tensor, void *user)
{
    (void)user;
    puts(tensor->name);
}

static enum gemmd_error print_tensors(struct gemmd_client *client, const char *of,
                                      struct gemmd_error_info *error)
{
    (void)of;
    return gemmd_tensor_list(client, print_tensor, NULL, error);
}

static void print_sequence(const struct gemmd_sequence *sequence, void *user)
{
    (void)user;
    puts(sequence->name);
}

static enum gemmd_error print_sequences(struct gemmd_client *client, const char *of,
                                        struct gemmd_error_info *error)
{
    (void)of;
    return gemmd_sequence_list(client, print_sequence, NULL, error);
}

static void print_job(const struct gemmd_job *job, void *user)
{
    (void)user;
    if (job->id[0] != '\0') /* a daemon that requires no tokens does not tell the ids */
        puts(job->id);
}

static enum gemmd_error print_jobs(struct gemmd_client *client, const char *of,
                                   struct gemmd_error_info *error)
{
    (void)of;
    return gemmd_job_list(client, print_job, NULL, error);
}

/* Returns the name of a kernel of the operation `of`, which is "" for all; NULL: the kernel is of
 * another operation. */
static const char *kernel_name(json_t *kernel, const char *of)
{
    const char *operation = json_string_value(json_object_get(kernel, "op"));
    const bool wanted = of[0] == '\0' || (operation != NULL && strcmp(operation, of) == 0);
    return wanted ? json_string_value(json_object_get(kernel, "name")) : NULL;
}

/* Several kernels may have the same name: of different backends, or of different operations. */
static bool is_first(json_t *kernels, size_t number, const char *of, const char *name)
{
    for (size_t i = 0; i < number; i++) {
        const char *other = kernel_name(json_array_get(kernels, i), of);
        if (other != NULL && strcmp(other, name) == 0)
            return false;
    }
    return true;
}

static enum gemmd_error print_kernels(struct gemmd_client *client, const char *of,
                                      struct gemmd_error_info *error)
{
    char *text;
    const enum gemmd_error code = gemmd_info(client, &text, error);
    if (code != GEMMD_OK)
        return code;
    json_t *info = json_loads(text, 0, NULL), *kernels = json_object_get(info, "kernels"), *kernel;
    size_t i;
    json_array_foreach(kernels, i, kernel)
    {
        const char *name = kernel_name(kernel, of);
        if (name != NULL && is_first(kernels, i, of, name))
            puts(name);
    }
    json_decref(info);
    gemmd_free(text);
    return GEMMD_OK;
}

/* `of` is what follows a colon in "kernels:conv2d", or "". */
static const struct {
    const char *what;
    enum gemmd_error (*print)(struct gemmd_client *client, const char *of,
                              struct gemmd_error_info *error);
} lists[] = {{"tensors", print_tensors},
             {"sequences", print_sequences},
             {"kernels", print_kernels},
             {"jobs", print_jobs}};

static void print_context(const char *name, void *user)
{
    (void)user;
    puts(name);
}

int command_completion(const struct context *context)
{
    const char *what = context->arguments->operands[0];
    struct gemmd_error_info error;
    char problem[PROBLEM_MAX];
    int code;
    for (const struct completion_script *script = context->scripts; script->shell != NULL;
         script++) {
        if (strcmp(what, script->shell) == 0) {
            fputs(script->text, stdout);
            return EXIT_OK;
        }
    }
    if (strcmp(what, "contexts") == 0) {
        settings_list(print_context, NULL);
        return EXIT_OK;
    }
    const size_t length = strcspn(what, ":");
    const char *of = what[length] == ':' ? what + length + 1 : "";
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        if (strncmp(what, lists[i].what, length) != 0 || lists[i].what[length] != '\0' ||
            (what[length] == ':' && lists[i].print != print_kernels))
            continue;
        struct gemmd_client *client = command_client(context, 0, 1, &code);
        if (client == NULL)
            return code;
        code = lists[i].print(client, of, &error) == GEMMD_OK ? EXIT_OK
                                                              : fail_request(context, &error);
        gemmd_client_free(client);
        return code;
    }
    snprintf(problem, sizeof problem,
             "'%.64s' is not a shell with a completion script; those are bash, zsh and fish", what);
    return fail_usage(context, problem);
}
