#include "client/gemmctl/screen.h"

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

bool screen_is_possible(void)
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

bool screen_open(void)
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

void screen_close(void)
{
    if (!is_open)
        return;
    is_open = 0;
    fputs(leave, stdout);
    fflush(stdout);
    tcsetattr(STDIN_FILENO, TCSANOW, &old_terminal);
}

void screen_size(uint32_t *rows, uint32_t *columns)
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

void screen_draw(const char *text)
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

enum screen_event screen_wait(uint32_t ms)
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

bool screen_interrupted(void)
{
    return interrupted != 0;
}
