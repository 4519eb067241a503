#include "server/liveness.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/number.h"
#include "server/api/services.h"
#include "server/http/digester.h"
#include "server/http/server.h"
#include "server/jobs/job_thread.h"
#include "server/net/notify.h"
#include "server/observe/log.h"

/* ---- what the threads do ---- */

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

/* Writes one line for each thread: its name and number, its state (a letter of proc_pid_stat(5)),
 * the CPU time that it has used, the system call that it is in and the function of the kernel that
 * it waits in. A part that the system does not tell is "?". */
static void dump_threads(struct log *log)
{
    DIR *threads = opendir("/proc/self/task");
    if (threads == NULL)
        return;
    for (const struct dirent *entry; (entry = readdir(threads)) != NULL;)
        if (entry->d_name[0] != '.')
            dump_thread(log, entry->d_name);
    closedir(threads);
}

/* ---- the watchdog ---- */

/* Looks in the time within which the service manager expects a message (WATCHDOG_USEC), and the
 * longest name of a part. */
enum { LOOKS = 4, PART_MAX = 64 };

/* The last probe of a device. */
struct device_probe {
    struct probe_wait wait;
    atomic_bool probing; /* `wait` belongs to the dispatch thread */
};

struct liveness {
    struct services *services; /* borrowed */
    uint64_t interval_ns;      /* between two looks; 0: there is no watchdog */
    uint64_t due_ns;           /* 0: not looked yet */
    bool starving;             /* the last look has found something stuck */
    struct device_probe probes[DEVICES_MAX];
};

/* The time between two looks; 0: the service manager has no watchdog for this process. */
static uint64_t read_interval_ns(void)
{
    const char *usec_text = getenv("WATCHDOG_USEC"), *pid_text = getenv("WATCHDOG_PID");
    uint64_t usec, pid;
    if (usec_text == NULL || !number_u64(usec_text, &usec) || usec > UINT64_MAX / 1000)
        return 0;
    if (pid_text != NULL && (!number_u64(pid_text, &pid) || pid != (uint64_t)getpid()))
        return 0;
    return usec * 1000 / LOOKS;
}

static void probe_done(struct probe_wait *wait)
{
    struct device_probe *probe = wait->context;
    atomic_store(&probe->probing, false);
}

struct liveness *liveness_create(struct services *services)
{
    struct liveness *liveness = calloc(1, sizeof *liveness);
    if (liveness == NULL)
        return NULL;
    liveness->services = services;
    liveness->interval_ns = read_interval_ns();
    for (uint32_t i = 0; i < DEVICES_MAX; i++)
        liveness->probes[i].wait =
            (struct probe_wait){.done = probe_done, .context = &liveness->probes[i], .right = true};
    return liveness;
}

void liveness_destroy(struct liveness *liveness)
{
    free(liveness);
}

void liveness_stop(struct liveness *liveness)
{
    liveness->interval_ns = 0;
}

/* Whether a device works, or has computed the last probe. Starts the next probe. */
static bool device_computes(struct liveness *liveness, uint32_t number)
{
    const struct executor *executor = &liveness->services->executors.list[number];
    struct device_probe *probe = &liveness->probes[number];
    const bool works = device_in_flight(executor->device) > 0;
    bool right = false;
    if (!atomic_load(&probe->probing)) {
        right = probe->wait.right;
        atomic_store(&probe->probing, true);
        if (dispatch_probe(executor->dispatch, &probe->wait,
                           (uint32_t)(liveness->interval_ns / 1000000)))
            atomic_store(&probe->probing, false);
    }
    return works || right;
}

/* Looks at all devices. Returns the name of a part that is stuck: a thread of a device, or else a
 * device; NULL: no part is stuck. A lost device is passed over if there are several devices, since
 * the daemon goes on with the others. */
static const char *stuck_of_devices(struct liveness *liveness)
{
    const struct executors *executors = &liveness->services->executors;
    const char *stuck = NULL;
    for (uint32_t i = 0; i < executors->count; i++) {
        const char *scheduler = dispatch_stuck(executors->list[i].dispatch);
        const bool computes = device_computes(liveness, i);
        if (executors->count > 1 && device_lost(executors->list[i].device))
            continue;
        if (scheduler != NULL)
            stuck = scheduler;
        else if (!computes && stuck == NULL)
            stuck = "the device";
    }
    return stuck;
}

/* Writes the name of a part that has made no progress since the last look. Every part is looked at,
 * since each look also wakes the part for the next one. */
static bool find_stuck(struct liveness *liveness, char part[PART_MAX])
{
    struct services *services = liveness->services;
    const char *device = stuck_of_devices(liveness);
    const bool jobs = job_thread_alive(services->job_thread);
    const bool log = log_alive(services->log);
    const int32_t io_thread = http_server_stuck_thread(services->http);
    const bool digester = digester_alive(services->http->digester);
    if (device != NULL)
        snprintf(part, PART_MAX, "%s", device);
    else if (io_thread >= 0)
        snprintf(part, PART_MAX, "I/O thread %" PRId32, io_thread);
    else if (!jobs)
        snprintf(part, PART_MAX, "the job thread");
    else if (!log)
        snprintf(part, PART_MAX, "the log's thread");
    else if (!digester)
        snprintf(part, PART_MAX, "the digester's thread");
    else
        return false;
    return true;
}

void liveness_check(struct liveness *liveness, uint64_t now_ns)
{
    char part[PART_MAX];
    if (liveness->interval_ns == 0 || now_ns < liveness->due_ns)
        return;
    const bool first = liveness->due_ns == 0;
    liveness->due_ns = now_ns + liveness->interval_ns;
    const bool stuck = find_stuck(liveness, part) && !first;
    if (!stuck)
        notify_send("WATCHDOG=1");
    if (stuck && !liveness->starving) {
        log_event(liveness->services->log, CONFIG_LOG_ERROR,
                  "%s makes no progress: the watchdog of the service manager is not fed", part);
        dump_threads(liveness->services->log);
    } else if (!stuck && liveness->starving)
        log_event(liveness->services->log, CONFIG_LOG_INFO,
                  "all parts make progress again: the watchdog is fed");
    liveness->starving = stuck;
}
