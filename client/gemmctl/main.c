/* gemmctl: matrix products on a gemmd daemon, from the shell. */
#include <signal.h>
#include <stdio.h>

#include "client/gemmctl/command.h"
#include "client/gemmctl/completion_scripts.h"

/* Returns `code` if all output was written, else a failure: stdout remembers an error of an earlier
 * write. */
static int finish_output(int code)
{
    const bool flushed = fflush(stdout) == 0;
    if ((!flushed || ferror(stdout)) && terminal_reader_left())
        return EXIT_PIPE;
    if (!flushed)
        perror("gemmctl: standard output");
    else if (ferror(stdout))
        fputs("gemmctl: standard output: the output could not be written completely\n", stderr);
    else
        return code;
    return code == EXIT_OK ? EXIT_FAILED : code;
}

int main(int argc, char *argv[])
{
    struct arguments arguments;
    struct context context = {
        .commands = commands, .arguments = &arguments, .scripts = completion_scripts};
    char problem[PROBLEM_MAX];
    /* SIGPIPE is ignored while gemmctl works, so that connections that end and pipes whose readers
     * leave are errors of write(), and temporary files are removed. */
    signal(SIGPIPE, SIG_IGN);
    bool right = arguments_parse(&arguments, argc, argv, commands, problem);
    context.terminal = terminal_look(option_flag(&arguments, OPTION_NO_COLOR));
    int code = EXIT_OK;
    if (!right)
        code = fail_usage(&context, problem);
    else if (option_flag(&arguments, OPTION_HELP))
        code = command_help(&context);
    else if (option_flag(&arguments, OPTION_VERSION))
        printf("gemmctl %s\n", gemmd_version());
    else
        code = arguments.command->run(&context);
    code = finish_output(code);
    if (code == EXIT_PIPE) {
        signal(SIGPIPE, SIG_DFL);
        raise(SIGPIPE); /* as programs end that do not ignore the signal */
    }
    return code;
}
