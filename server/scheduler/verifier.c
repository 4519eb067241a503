#include "server/scheduler/verifier.h"

#include <pthread.h>
#include <stdlib.h>

#include "kernels/freivalds.h"
#include "server/base/clock.h"
#include "server/base/heartbeat.h"

struct verifier {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    struct work *first, *last;
    struct heartbeat heartbeat;
    struct verify_counts counts;
    bool stopping;
};

static void count_result(struct verifier *verifier, const struct work *work,
                         enum verify_result result)
{
    atomic_fetch_add(&verifier->counts.count[work->verify][result], 1);
}

/* Counts a check, and sets the status of a work whose result is wrong. */
static void verifier_judge(struct verifier *verifier, struct work *work, bool pass)
{
    count_result(verifier, work, pass ? VERIFY_PASS : VERIFY_FAIL);
    if (!pass)
        work->status = fault_set(&work->fault, GEMMD_ERR_VERIFICATION, "verify",
                                 "the result of the kernel %s failed verification: its error is "
                                 "%.3g times what rounding explains",
                                 work->kernel->name, work->residual);
}

static void verifier_check(struct verifier *verifier, struct work *work)
{
    bool pass = false;
    enum gemmd_error code =
        freivalds_check(&work->problem, work->verify_seed, &pass, &work->residual);
    if (code == GEMMD_OK)
        verifier_judge(verifier, work, pass);
    else
        count_result(verifier, work, VERIFY_ERROR);
    if (code != GEMMD_OK && work->verify == WORK_VERIFY_ASKED)
        work->status = fault_set(&work->fault, code, NULL, "the result could not be verified");
    work->done_ns = clock_now_ns();
    work_end(work);
}

static void *verifier_run(void *argument)
{
    struct verifier *verifier = argument;
    pthread_setname_np(pthread_self(), "verifier");
    pthread_mutex_lock(&verifier->lock);
    for (;;) {
        struct work *work = verifier->first;
        heartbeat_beat(&verifier->heartbeat);
        if (work != NULL) {
            verifier->first = work->next;
            pthread_mutex_unlock(&verifier->lock);
            verifier_check(verifier, work);
            pthread_mutex_lock(&verifier->lock);
        } else if (verifier->stopping) {
            break;
        } else {
            pthread_cond_wait(&verifier->changed, &verifier->lock);
        }
    }
    pthread_mutex_unlock(&verifier->lock);
    return NULL;
}

struct verifier *verifier_start(void)
{
    struct verifier *verifier = calloc(1, sizeof *verifier);
    if (verifier == NULL)
        return NULL;
    if (pthread_mutex_init(&verifier->lock, NULL) != 0)
        goto no_lock;
    if (pthread_cond_init(&verifier->changed, NULL) != 0)
        goto no_condition;
    if (pthread_create(&verifier->thread, NULL, verifier_run, verifier) != 0)
        goto no_thread;
    return verifier;

no_thread:
    pthread_cond_destroy(&verifier->changed);
no_condition:
    pthread_mutex_destroy(&verifier->lock);
no_lock:
    free(verifier);
    return NULL;
}

void verifier_end(struct verifier *verifier)
{
    pthread_mutex_lock(&verifier->lock);
    verifier->stopping = true;
    pthread_cond_signal(&verifier->changed);
    pthread_mutex_unlock(&verifier->lock);
    pthread_join(verifier->thread, NULL);
}

void verifier_free(struct verifier *verifier)
{
    pthread_cond_destroy(&verifier->changed);
    pthread_mutex_destroy(&verifier->lock);
    free(verifier);
}

void verifier_push(struct verifier *verifier, struct work *work)
{
    if (work->verify_on_device) {
        verifier_judge(verifier, work, work->residual <= 1);
        work_end(work);
        return;
    }
    pthread_mutex_lock(&verifier->lock);
    work->next = NULL;
    if (verifier->first == NULL)
        verifier->first = work;
    else
        verifier->last->next = work;
    verifier->last = work;
    pthread_cond_signal(&verifier->changed);
    pthread_mutex_unlock(&verifier->lock);
}

const struct verify_counts *verifier_counts(const struct verifier *verifier)
{
    return &verifier->counts;
}

bool verifier_alive(struct verifier *verifier)
{
    const bool alive = heartbeat_look(&verifier->heartbeat);
    pthread_mutex_lock(&verifier->lock);
    pthread_cond_signal(&verifier->changed);
    pthread_mutex_unlock(&verifier->lock);
    return alive;
}
