#include "client/gemmctl/interrupt.h"

#include <signal.h>

/* A signal handler has no argument, so this flag has to be a static variable. */
static volatile sig_atomic_t asked;

static void on_signal(int number)
{
    (void)number;
    asked = 1;
}

void interrupt_watch(void)
{
    /* SA_RESETHAND: the second signal ends the program. */
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool interrupt_asked(void)
{
    return asked != 0;
}
