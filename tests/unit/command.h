/* command.h - runs another program for a test, without a shell between. */
#ifndef TESTS_UNIT_COMMAND_H
#define TESTS_UNIT_COMMAND_H

#include <stddef.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs argv[0] from PATH with standard input from `input` (-1: the test's own) and gives what it
 * wrote on standard output and standard error, terminated and cut at the capacity. Returns its exit
 * status, 127 if there is no such program, -1 if it was killed or could not be started. */
static int command_run(const char *const argv[], int input, char *out, size_t capacity)
{
    int pipes[2], status = 0;
    size_t length = 0;
    ssize_t got;
    if (pipe(pipes) != 0)
        return -1;
    pid_t child = fork();
    if (child == 0) {
        if (input >= 0)
            dup2(input, STDIN_FILENO);
        dup2(pipes[1], STDOUT_FILENO);
        dup2(pipes[1], STDERR_FILENO);
        close(pipes[0]);
        close(pipes[1]);
        execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    close(pipes[1]);
    while (child > 0 && length + 1 < capacity &&
           (got = read(pipes[0], out + length, capacity - 1 - length)) > 0)
        length += (size_t)got;
    out[length] = '\0';
    close(pipes[0]);
    if (child < 0 || waitpid(child, &status, 0) != child)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#endif
