#include "server/net/handover.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/base/inherited_sockets.h"

extern char **environ;

/* The first descriptor that the new process gets (sd_listen_fds(3)), and the most sockets. */
enum { FIRST_FD = 3, SOCKETS_MAX = 32 };

/* Variables that concern only the old process. All other variables are passed to the new process.
 */
static const char *const own_variables[] = {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES",
                                            "WATCHDOG_PID", INHERITED_VARIABLE};

static bool is_own_variable(const char *entry)
{
    const size_t length = strcspn(entry, "=");
    for (size_t i = 0; i < sizeof own_variables / sizeof *own_variables; i++)
        if (strlen(own_variables[i]) == length && memcmp(entry, own_variables[i], length) == 0)
            return true;
    return false;
}

/* Returns the value of GEMMD_HANDOVER with its name, as new memory; NULL: out of memory. Without a
 * pipe for news, no old process waits for the start. */
static char *describe_sockets(const struct handover_socket *sockets, uint32_t count, bool has_pipe)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (out == NULL)
        return NULL;
    fputs(INHERITED_VARIABLE "=", out);
    if (has_pipe)
        fprintf(out, "%u", FIRST_FD + count);
    for (uint32_t i = 0; i < count; i++)
        fprintf(out, "\n%s", sockets[i].address);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

/* Returns the environment of the new process as a new list, which borrows all strings. */
static char **make_environment(char *description)
{
    size_t count = 0, kept = 0;
    while (environ[count] != NULL)
        count++;
    char **list = calloc(count + 2, sizeof *list);
    if (list == NULL)
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (!is_own_variable(environ[i]))
            list[kept++] = environ[i];
    list[kept] = description;
    return list;
}

/* Chooses the program: the file that argv[0] names now, or this process's own file if there is no
 * such file. A name without a slash is looked for in PATH by posix_spawnp. */
static const char *choose_program(char *const argv[], char own[PATH_MAX])
{
    static const char deleted[] = " (deleted)";
    if (strchr(argv[0], '/') == NULL || access(argv[0], X_OK) == 0)
        return argv[0];
    const ssize_t length = readlink("/proc/self/exe", own, PATH_MAX - 1);
    if (length < 0)
        return argv[0];
    own[length] = '\0';
    char *end = own + length - (sizeof deleted - 1);
    if (end > own && strcmp(end, deleted) == 0)
        *end = '\0';
    return own;
}

/* Starts the program. The new process gets the descriptors `fds` as descriptors 3 and up; the
 * numbers of `fds` are all higher. Returns an error number. */
static int spawn(pid_t *pid, char *const argv[], char *const environment[], const int *fds,
                 uint32_t count)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    char own[PATH_MAX];
    sigset_t none;
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0)
        return error;
    error = posix_spawnattr_init(&attributes);
    if (error != 0)
        goto no_attributes;
    sigemptyset(&none);
    error = posix_spawnattr_setsigmask(&attributes, &none);
    if (error == 0)
        error = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    for (uint32_t i = 0; error == 0 && i < count; i++)
        error = posix_spawn_file_actions_adddup2(&actions, fds[i], FIRST_FD + (int)i);
    if (error == 0) /* libraries may have opened descriptors that stay open */
        error = posix_spawn_file_actions_addclosefrom_np(&actions, FIRST_FD + (int)count);
    if (error == 0)
        error =
            posix_spawnp(pid, choose_program(argv, own), &actions, &attributes, argv, environment);
    posix_spawnattr_destroy(&attributes);
no_attributes:
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* Copies the sockets and the pipe (-1: none) to descriptors with numbers above those that they get
 * in the new process, so that giving one its number does not close another. Returns the number of
 * copies. */
static uint32_t copy_descriptors(const struct handover_socket *sockets, uint32_t count, int pipe_fd,
                                 int copies[SOCKETS_MAX + 1])
{
    const uint32_t all = pipe_fd < 0 ? count : count + 1;
    for (uint32_t i = 0; i < all; i++) {
        copies[i] =
            fcntl(i < count ? sockets[i].fd : pipe_fd, F_DUPFD_CLOEXEC, FIRST_FD + SOCKETS_MAX + 1);
        if (copies[i] < 0)
            return i;
    }
    return all;
}

enum gemmd_error handover_begin(struct handover *handover, char *const argv[],
                                const struct handover_socket *sockets, uint32_t count,
                                uint64_t deadline_ns, struct fault *fault)
{
    int news[2], copies[SOCKETS_MAX + 1], error = 0;
    pid_t pid = 0;
    if (count > SOCKETS_MAX)
        return fault_set(fault, GEMMD_ERR_INTERNAL, NULL, "there are too many listening sockets");
    if (pipe2(news, O_CLOEXEC | O_NONBLOCK) != 0)
        return fault_set(fault, GEMMD_ERR_IO, NULL, "cannot open a pipe: %s", strerror(errno));
    char *description = describe_sockets(sockets, count, true);
    char **environment = description == NULL ? NULL : make_environment(description);
    const uint32_t copied = copy_descriptors(sockets, count, news[1], copies);
    if (environment == NULL)
        error = ENOMEM;
    else if (copied != count + 1)
        error = EMFILE;
    else
        error = spawn(&pid, argv, environment, copies, copied);
    for (uint32_t i = 0; i < copied; i++)
        close(copies[i]);
    close(news[1]);
    free(environment);
    free(description);
    if (error != 0) {
        close(news[0]);
        return fault_set(fault, GEMMD_ERR_IO, NULL, "cannot start %.120s: %s", argv[0],
                         strerror(error));
    }
    *handover = (struct handover){
        .state = HANDOVER_STARTING, .pid = pid, .news_fd = news[0], .deadline_ns = deadline_ns};
    return GEMMD_OK;
}

/* Gives the copies the numbers that the program expects, has all other descriptors closed at the
 * execution, and executes the program. Returns an error number. */
static int execute(char *const argv[], char *const environment[], const int *copies, uint32_t count)
{
    char own[PATH_MAX];
    sigset_t none;
    for (uint32_t i = 0; i < count; i++)
        if (dup2(copies[i], FIRST_FD + (int)i) < 0)
            return errno;
    if (close_range(FIRST_FD + count, UINT_MAX, CLOSE_RANGE_CLOEXEC) != 0)
        return errno;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvpe(choose_program(argv, own), argv, environment);
    return errno;
}

enum gemmd_error handover_execute(char *const argv[], const struct handover_socket *sockets,
                                  uint32_t count, struct fault *fault)
{
    int copies[SOCKETS_MAX + 1], error = ENOMEM;
    if (count > SOCKETS_MAX)
        return fault_set(fault, GEMMD_ERR_INTERNAL, NULL, "there are too many listening sockets");
    char *description = describe_sockets(sockets, count, false);
    char **environment = description == NULL ? NULL : make_environment(description);
    const uint32_t copied = copy_descriptors(sockets, count, -1, copies);
    if (copied != count)
        error = EMFILE;
    else if (environment != NULL)
        error = execute(argv, environment, copies, copied);
    free(environment);
    free(description);
    return fault_set(fault, GEMMD_ERR_IO, NULL, "cannot execute %.120s: %s", argv[0],
                     strerror(error));
}

static void stop_listening(struct handover *handover, enum handover_state state)
{
    close(handover->news_fd);
    handover->state = state;
}

static void end_process(struct handover *handover, const char *reason)
{
    kill(handover->pid, SIGKILL);
    if (handover->state == HANDOVER_STARTING) {
        stop_listening(handover, HANDOVER_ENDING);
        snprintf(handover->reason, sizeof handover->reason, "%s", reason);
    }
}

/* Reads the message of the new process. */
static void read_news(struct handover *handover)
{
    char *reason = handover->reason;
    const size_t length = strlen(reason), room = sizeof handover->reason - 1 - length;
    char rest[64];
    const ssize_t taken = room > 0 ? read(handover->news_fd, reason + length, room)
                                   : read(handover->news_fd, rest, sizeof rest);
    if (taken < 0)
        return;     /* nothing was said */
    if (taken == 0) /* the new process is about to end */
        stop_listening(handover, HANDOVER_ENDING);
    else if (reason[0] == '\n')
        stop_listening(handover, HANDOVER_READY);
}

/* Whether the new process has ended; if so, writes how. */
static bool has_ended(const struct handover *handover, char how[64])
{
    int status;
    const pid_t pid = waitpid(handover->pid, &status, WNOHANG);
    if (pid == 0 || (pid < 0 && errno == EINTR))
        return false;
    if (pid < 0)
        snprintf(how, 64, "ended");
    else if (WIFEXITED(status))
        snprintf(how, 64, "exited with status %d", WEXITSTATUS(status));
    else
        snprintf(how, 64, "was ended by signal %d", WTERMSIG(status));
    return true;
}

enum gemmd_error handover_look(struct handover *handover, uint64_t now_ns, struct fault *fault)
{
    char how[64];
    if (handover->state == HANDOVER_STARTING)
        read_news(handover);
    if ((handover->state == HANDOVER_STARTING || handover->state == HANDOVER_ENDING) &&
        now_ns > handover->deadline_ns)
        end_process(handover, "it was not ready within --takeover-timeout");
    if (handover->state != HANDOVER_ENDING || !has_ended(handover, how))
        return GEMMD_OK;
    handover->state = HANDOVER_NONE;
    return fault_set(fault, GEMMD_ERR_INTERNAL, NULL, "the new process, pid %d, %s%s%s",
                     (int)handover->pid, how, handover->reason[0] != '\0' ? ": " : "",
                     handover->reason);
}

void handover_cancel(struct handover *handover)
{
    if (handover->state == HANDOVER_STARTING)
        end_process(handover, "it is not needed, because this process ends");
}

/* ---- in the new process ---- */

static void tell(const char *news)
{
    const int fd = inherited_news_fd();
    if (fd < 0)
        return;
    (void)!write(fd, news, strlen(news)); /* an old process that is gone needs no news */
    close(fd);
}

void handover_tell_ready(void)
{
    tell("\n");
}

void handover_tell_failure(const char *reason)
{
    tell(reason);
}
