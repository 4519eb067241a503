/* gemmctl top: the daemon's rate, latency, queue, devices and tensors, redrawn until q is pressed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/gemmctl/command.h"
#include "client/gemmctl/interrupt.h"
#include "client/gemmctl/print.h"
#include "client/gemmctl/screen.h"
#include "client/gemmctl/settings.h"
#include "client/gemmctl/top_view.h"

/* FIRST_MS: the longest time between the two looks of the first view. */
enum { INTERVAL_MS = 1000, FIRST_MS = 250 };

static int out_of_memory(const struct context *context)
{
    struct fault fault;
    fault_set(&fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "there is no memory for the view");
    return fail_fault(context, &fault);
}

/* Waits between the two looks of one report. False: the user has interrupted. */
static bool wait_interrupted(uint32_t ms)
{
    for (uint32_t passed = 0; passed < ms && !interrupt_asked(); passed += INTERRUPT_CHECK_MS) {
        const uint32_t step = ms - passed < INTERRUPT_CHECK_MS ? ms - passed : INTERRUPT_CHECK_MS;
        nanosleep(&(struct timespec){.tv_nsec = step * 1000000L}, NULL);
    }
    return !interrupt_asked();
}

/* Prints one report of one interval. */
static int report_once(const struct context *context, struct gemmd_client *client,
                       uint32_t interval_ms, const char *url)
{
    struct top_look before = {0}, after = {0};
    struct gemmd_error_info error;
    const struct top_view view = {
        .before = &before, .after = &after, .url = url, .color = context->terminal.out_color};
    int code = EXIT_OK;
    interrupt_watch();
    if (top_look(client, &before, &error) != GEMMD_OK)
        code = fail_request(context, &error);
    else if (!wait_interrupted(interval_ms))
        code = EXIT_INTERRUPTED;
    else if (top_look(client, &after, &error) != GEMMD_OK)
        code = fail_request(context, &error);
    else if (option_flag(context->arguments, OPTION_JSON))
        print_json(top_view_describe(&view));
    else if (!top_view_print(&view, stdout))
        code = out_of_memory(context);
    top_look_free(&before);
    top_look_free(&after);
    return code;
}

/* Draws the report with a line about the keys. False: out of memory. */
static bool draw(const struct top_view *view)
{
    char *text = NULL;
    size_t length;
    FILE *lines = open_memstream(&text, &length);
    if (lines == NULL)
        return false;
    const bool printed = top_view_print(view, lines);
    fputs("\nq leaves", lines);
    const bool complete = fclose(lines) == 0;
    if (printed && complete)
        screen_draw(text);
    free(text);
    return printed && complete;
}

/* Looks and redraws until the user leaves. The first look has to succeed; when a later one fails,
 * the view says so and keeps the figures. */
static int watch(const struct context *context, struct gemmd_client *client, uint32_t interval_ms,
                 const char *url)
{
    struct top_look looks[3] = {0}; /* two that succeeded, and one that is being made */
    struct top_look *before = &looks[0], *after = &looks[1], *next = &looks[2], *oldest;
    struct gemmd_error_info error;
    struct top_view view = {.url = url, .color = context->terminal.out_color};
    bool looked = top_look(client, before, &error) == GEMMD_OK;
    if (looked) {
        (void)wait_interrupted(interval_ms < FIRST_MS ? interval_ms : FIRST_MS);
        looked = top_look(client, after, &error) == GEMMD_OK;
    }
    if (!looked) {
        top_look_free(before);
        top_look_free(after);
        return fail_request(context, &error);
    }
    bool drawn = screen_open();
    for (enum screen_event event = SCREEN_TIME; drawn && event != SCREEN_LEAVE;) {
        view.before = before;
        view.after = after;
        drawn = draw(&view);
        if (!drawn || (event = screen_wait(interval_ms)) != SCREEN_TIME)
            continue;
        view.problem = top_look(client, next, &error) == GEMMD_OK ? NULL : error.message;
        if (view.problem != NULL) {
            top_look_free(next);
            continue;
        }
        oldest = before;
        before = after;
        after = next;
        next = oldest;
        top_look_free(next);
    }
    screen_close();
    for (int i = 0; i < 3; i++)
        top_look_free(&looks[i]);
    if (!drawn)
        return out_of_memory(context);
    return screen_interrupted() ? EXIT_INTERRUPTED : EXIT_OK;
}

int command_top(const struct context *context)
{
    const struct arguments *arguments = context->arguments;
    char problem[PROBLEM_MAX];
    uint32_t interval_ms;
    int code;
    if (!option_time_ms(arguments, OPTION_INTERVAL, INTERVAL_MS, &interval_ms, problem))
        return fail_usage(context, problem);
    struct gemmd_client *client = command_client(context, 0, 1, &code);
    if (client == NULL)
        return code;
    struct settings settings;
    (void)settings_read(&settings, arguments, problem); /* command_client has read the same */
    const char *url = settings_address(&settings);
    const bool once = option_flag(arguments, OPTION_ONCE) || option_flag(arguments, OPTION_JSON) ||
                      !screen_is_possible();
    code = once ? report_once(context, client, interval_ms, url)
                : watch(context, client, interval_ms, url);
    settings_free(&settings);
    gemmd_client_free(client);
    return code;
}
