#include "client/process.h"

#include <pthread.h>

#include "client/schedule.h"
#include "client/transfer.h"

/* curl_global_init has to be called once in a process, and forks have to be noticed. `process_once`
 * and `fork_count` are the only state of the library that does not belong to a client. Process ids
 * would not tell a fork from a process whose id is used again. */
static pthread_once_t process_once = PTHREAD_ONCE_INIT;
static uint32_t fork_count; /* of the calling process and its ancestors; written while the process
                               has one thread */

static void count_fork(void)
{
    fork_count++;
}

static void start_process(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
    pthread_atfork(NULL, NULL, count_fork);
}

/* Leaves everything that is in use to the parent process. */
static void leave_to_parent(struct gemmd_client *client)
{
    loop_disown(&client->loop);
    schedule_end_all(client, GEMMD_ERR_CANCELLED,
                     "the request belongs to the process that this process was forked from");
    transfer_free_idle(client);
    shared_memory_disown(client);
}

void process_start(void)
{
    pthread_once(&process_once, start_process);
}

uint32_t process_forks(void)
{
    return fork_count;
}

void process_disown(struct gemmd_client *client)
{
    if (client->forks == fork_count)
        return;
    leave_to_parent(client);
    client->forks = fork_count;
}

bool process_enter(struct gemmd_client *client)
{
    if (client->forks == fork_count)
        return true;
    leave_to_parent(client);
    if (!loop_reopen(&client->loop, client->options.max_in_flight))
        return false;
    client->random = backoff_seed(); /* else parent and child would repeat at the same times */
    client->forks = fork_count;
    return true;
}
