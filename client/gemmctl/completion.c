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

static enum gemmd_error print_tensors(struct gemmd_client *client, struct gemmd_error_info *error)
{
    return gemmd_tensor_list(client, print_tensor, NULL, error);
}

static void print_job(const struct gemmd_job *job, void *user)
{
    (void)user;
    if (job->id[0] != '\0') /* a daemon that requires no tokens does not tell the ids */
        puts(job->id);
}

static enum gemmd_error print_jobs(struct gemmd_client *client, struct gemmd_error_info *error)
{
    return gemmd_job_list(client, print_job, NULL, error);
}

/* Several kernels may have the same name: of different backends, or for products and attentions. */
static bool is_first(json_t *kernels, size_t number, const char *name)
{
    for (size_t i = 0; i < number; i++) {
        const char *other = json_string_value(json_object_get(json_array_get(kernels, i), "name"));
        if (other != NULL && strcmp(other, name) == 0)
            return false;
    }
    return true;
}

static enum gemmd_error print_kernels(struct gemmd_client *client, struct gemmd_error_info *error)
{
    char *text;
    const enum gemmd_error code = gemmd_info(client, &text, error);
    if (code != GEMMD_OK)
        return code;
    json_t *info = json_loads(text, 0, NULL), *kernels = json_object_get(info, "kernels"), *kernel;
    size_t i;
    json_array_foreach(kernels, i, kernel)
    {
        const char *name = json_string_value(json_object_get(kernel, "name"));
        if (name != NULL && is_first(kernels, i, name))
            puts(name);
    }
    json_decref(info);
    gemmd_free(text);
    return GEMMD_OK;
}

static const struct {
    const char *what;
    enum gemmd_error (*print)(struct gemmd_client *client, struct gemmd_error_info *error);
} lists[] = {{"tensors", print_tensors}, {"kernels", print_kernels}, {"jobs", print_jobs}};

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
    for (const struct completion_script *script = completion_scripts; script->shell != NULL;
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
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        if (strcmp(what, lists[i].what) != 0)
            continue;
        struct gemmd_client *client = command_client(context, 0, 1, &code);
        if (client == NULL)
            return code;
        code = lists[i].print(client, &error) == GEMMD_OK ? EXIT_OK : fail_request(context, &error);
        gemmd_client_free(client);
        return code;
    }
    snprintf(problem, sizeof problem,
             "'%.64s' is not a shell with a completion script; those are bash, zsh and fish", what);
    return fail_usage(context, problem);
}
