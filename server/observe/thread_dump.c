#include "server/observe/thread_dump.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proto/number.h"
#include "server/observe/log.h"

enum { TEXT_MAX = 1024, NAME_MAX_BYTES = 32 };

static const char unknown[] = "?";

/* Reads a file of a thread, without its last line feed. */
static void read_file(char text[TEXT_MAX], const char *thread, const char *name)
{
    char path[64];
    size_t length = 0;
    snprintf(path, sizeof path, "/proc/self/task/%.16s/%.16s", thread, name);
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        length = fread(text, 1, TEXT_MAX - 1, file);
        fclose(file);
    }
    if (length > 0 && text[length - 1] == '\n')
        length--;
    text[length] = '\0';
}

/* The state, and the CPU time in ticks, from a thread's `stat`. */
static char read_state(char *stat, uint64_t *ticks)
{
    /* The second field is the name in parentheses, and may contain any characters. */
    char *rest = strrchr(stat, ')');
    char state = unknown[0];
    *ticks = 0;
    for (int field = 2; rest != NULL && field <= 15; field++) {
        const char *word = strsep(&rest, " ");
        uint64_t more;
        if (field == 3)
            state = word[0];
        else if ((field == 14 || field == 15) && number_u64(word, &more))
            *ticks += more;
    }
    return state;
}

static void dump_thread(struct log *log, const char *thread)
{
    char text[TEXT_MAX], name[NAME_MAX_BYTES], call[NAME_MAX_BYTES], function[NAME_MAX_BYTES * 2];
    uint64_t ticks;
    read_file(text, thread, "comm");
    snprintf(name, sizeof name, "%.16s", text);
    read_file(text, thread,
              "syscall"); /* the number of the call, and its arguments; or "running" */
    text[strcspn(text, " ")] = '\0';
    snprintf(call, sizeof call, "%.20s", text[0] != '\0' ? text : unknown);
    read_file(text, thread, "wchan"); /* "0": the thread does not wait */
    snprintf(function, sizeof function, "%.40s", text[0] != '\0' ? text : unknown);
    read_file(text, thread, "stat");
    const char state = read_state(text, &ticks);
    log_event(log, CONFIG_LOG_ERROR,
              "thread %s (%s): state %c, %.2f s of CPU time, system call %s, waits in %s", name,
              thread, state, (double)ticks / (double)sysconf(_SC_CLK_TCK), call, function);
}

void thread_dump(struct log *log)
{
    DIR *threads = opendir("/proc/self/task");
    if (threads == NULL)
        return;
    for (const struct dirent *entry; (entry = readdir(threads)) != NULL;)
        if (entry->d_name[0] != '.')
            dump_thread(log, entry->d_name);
    closedir(threads);
}
