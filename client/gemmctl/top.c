/* gemmctl top: the daemon's rate, latency, queue, devices and tensors, redrawn until q is pressed.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "client/gemmctl/command.h"
#include "client/gemmctl/print.h"
#include "client/gemmctl/progress.h"
#include "client/gemmctl/settings.h"
#include "client/gemmctl/top_view.h"

/* ---- the screen ---- */

enum screen_event { SCREEN_TIME, SCREEN_RESIZED, SCREEN_LEAVE };

/* To the alternate screen, without a cursor; and back. */
static const char enter[] = "\033[?1049h\033[?25l";
static const char leave[] = "\033[?25h\033[?1049l";

/* Signal handlers have no argument, so these have to be static variables. */
static struct termios old_terminal;
static volatile sig_atomic_t interrupted, resized, is_open;

static void on_interrupt(int number)
{
    (void)number;
    if (interrupted && is_open) { /* both functions may be called in a signal handler */
        (void)!write(STDOUT_FILENO, leave, sizeof leave - 1);
        tcsetattr(STDIN_FILENO, TCSANOW, &old_terminal);
        _exit(EXIT_INTERRUPTED);
    }
    interrupted = 1;
}

static void on_resize(int number)
{
    (void)number;
    resized = 1;
}

/* Whether standard input and standard output are a terminal that can be redrawn. */
static bool screen_is_possible(void)
{
    const char *term = getenv("TERM");
    return isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1 && term != NULL &&
           strcmp(term, "dumb") != 0;
}

/* Blocks, or no longer blocks, the signals that screen_wait waits for, so that none arrives between
 * looking at its flag and waiting. */
static void block_signals(bool block, sigset_t *old)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGWINCH);
    sigprocmask(block ? SIG_BLOCK : SIG_UNBLOCK, &set, old);
}

/* Opens the alternate screen: the terminal shows its old text again after screen_close. Keys are
 * not echoed. Ctrl-C and SIGTERM are events; a second one restores the terminal and ends gemmctl
 * at once, with status 130. False: the terminal cannot be set up. */
static bool screen_open(void)
{
    if (tcgetattr(STDIN_FILENO, &old_terminal) != 0)
        return false;
    struct termios raw = old_terminal;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    raw.c_cc[VSUSP] = _POSIX_VDISABLE; /* a stopped program would leave the terminal as it is */
    if (tcsetattr(STDIN_FILENO, TCSANOW, &raw) != 0)
        return false;
    struct sigaction action = {.sa_handler = on_interrupt};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    action.sa_handler = on_resize;
    sigaction(SIGWINCH, &action, NULL);
    fputs(enter, stdout);
    fflush(stdout);
    is_open = 1;
    return true;
}

static void screen_close(void)
{
    if (!is_open)
        return;
    is_open = 0;
    fputs(leave, stdout);
    fflush(stdout);
    tcsetattr(STDIN_FILENO, TCSANOW, &old_terminal);
}

/* The size of the terminal; 24 rows of 80 columns if the terminal does not tell. */
static void screen_size(uint32_t *rows, uint32_t *columns)
{
    struct winsize size;
    const bool told =
        ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0;
    *rows = told ? size.ws_row : 24;
    *columns = told ? size.ws_col : 80;
}

/* Prints a line, up to its end or the last column. Returns where the line ends. */
static const char *draw_line(const char *at, uint32_t columns)
{
    uint32_t column = 0;
    for (; *at != '\0' && *at != '\n'; at++) {
        if (*at == '\033') {
            const size_t length = strcspn(at, "m\n") + 1;
            fwrite(at, 1, length, stdout);
            at += length - 1;
            continue;
        }
        column += ((unsigned char)*at & 0xc0) != 0x80; /* continuation bytes of UTF-8 take none */
        if (column <= columns)
            putchar(*at);
    }
    return at;
}

/* Draws a text from the top. Lines beyond the last row and characters beyond the last column are
 * left out. Escape sequences that end in "m" take no column. */
static void screen_draw(const char *text)
{
    uint32_t rows, columns;
    screen_size(&rows, &columns);
    fputs("\033[H", stdout);
    for (uint32_t row = 0; row < rows && *text != '\0'; row++) {
        if (row > 0)
            fputs("\r\n", stdout);
        text = draw_line(text, columns);
        fputs("\033[0m\033[K", stdout);
        text += *text == '\n';
    }
    fputs("\033[J", stdout);
    fflush(stdout);
}

/* Reads the keys that are there. Returns whether one of them is q, or the terminal is gone. */
static bool leaving_key(void)
{
    char keys[64];
    const ssize_t got = read(STDIN_FILENO, keys, sizeof keys);
    for (ssize_t i = 0; i < got; i++)
        if (keys[i] == 'q' || keys[i] == 'Q')
            return true;
    return got < 0 && errno != EINTR && errno != EAGAIN;
}

/* Waits for at most `ms` milliseconds. SCREEN_LEAVE: q, Ctrl-C, SIGTERM, or the terminal is gone.
 * SCREEN_RESIZED: the terminal has another size. */
static enum screen_event screen_wait(uint32_t ms)
{
    struct pollfd keys = {.fd = STDIN_FILENO, .events = POLLIN};
    struct timespec now, until, left;
    sigset_t old;
    enum screen_event event = SCREEN_TIME;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * 1000000;
    block_signals(true, &old);
    for (;;) {
        if (interrupted) {
            event = SCREEN_LEAVE;
            break;
        }
        if (resized) {
            resized = 0;
            event = SCREEN_RESIZED;
            break;
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
        int64_t ns =
            (until.tv_sec - now.tv_sec) * INT64_C(1000000000) + until.tv_nsec - now.tv_nsec;
        if (ns <= 0)
            break;
        left = (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
        const int ready = ppoll(&keys, 1, &left, &old);
        if (ready > 0 && ((keys.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0 || leaving_key())) {
            event = SCREEN_LEAVE;
            break;
        }
    }
    sigprocmask(SIG_SETMASK, &old, NULL);
    return event;
}

/* Whether Ctrl-C or SIGTERM has ended the view, and not the key q. */
static bool screen_interrupted(void)
{
    return interrupted != 0;
}

/* ---- the command ---- */

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
