#include "server/http/digester.h"

#include <pthread.h>
#include <stdlib.h>

#include "server/base/heartbeat.h"

/* ---- hashes ---- */

bool digest_hashes_begin(struct digest_hashes *hashes, enum digest_algorithm algorithm)
{
    static const gnutls_digest_algorithm_t names[DIGEST_ALGORITHMS] = {
        [DIGEST_SHA256] = GNUTLS_DIG_SHA256, [DIGEST_SHA512] = GNUTLS_DIG_SHA512};
    if (gnutls_hash_init(&hashes->of[algorithm], names[algorithm]) == 0)
        return true;
    hashes->of[algorithm] = NULL;
    return false;
}

void digest_hashes_add(const struct digest_hashes *hashes, const void *bytes, uint64_t length)
{
    for (int i = 0; i < DIGEST_ALGORITHMS; i++)
        if (hashes->of[i] != NULL)
            (void)gnutls_hash(hashes->of[i], bytes, (size_t)length);
}

void digest_hashes_end(struct digest_hashes *hashes,
                       unsigned char values[DIGEST_ALGORITHMS][DIGEST_BYTES_MAX])
{
    for (int i = 0; i < DIGEST_ALGORITHMS; i++) {
        if (hashes->of[i] != NULL)
            gnutls_hash_deinit(hashes->of[i], values == NULL ? NULL : values[i]);
        hashes->of[i] = NULL;
    }
}

/* ---- the thread ---- */

struct digester {
    pthread_mutex_t lock; /* of the next four */
    pthread_cond_t changed;
    struct fair_list runs;
    const struct digest_run *hashing; /* in `runs`; the thread uses it without the lock */
    bool stopping;
    struct heartbeat heartbeat;
    struct digester_hooks hooks;
    pthread_t thread;
};

/* Hashes the next piece of a run. Returns the number of bytes that were hashed. */
static uint64_t hash_piece(struct digest_run *run)
{
    const struct MHD_IoVec *part = &run->payload->parts[run->part];
    const uint64_t left = part->iov_len - run->offset;
    const uint64_t bytes = left < DIGESTER_PIECE_BYTES ? left : DIGESTER_PIECE_BYTES;
    digest_hashes_add(&run->hashes, (const char *)part->iov_base + run->offset, bytes);
    run->offset += bytes;
    if (run->offset == part->iov_len) {
        run->part++;
        run->offset = 0;
    }
    return bytes;
}

/* Ends a run that is in no list. Its owner may free the run at once. Not under the lock. */
static void run_end(const struct digester *digester, struct digest_run *run,
                    enum gemmd_error status)
{
    digest_hashes_end(&run->hashes, run->values);
    run->status = status;
    digester->hooks.wake(run->request);
}

/* Removes a run and ends it. Under the lock, which is given up meanwhile. */
static void finish(struct digester *digester, struct digest_run *run, enum gemmd_error status)
{
    fair_list_remove(&digester->runs, &run->item);
    pthread_mutex_unlock(&digester->lock);
    run_end(digester, run, status);
    pthread_mutex_lock(&digester->lock);
}

/* Hashes a piece of a run. Under the lock, which is given up meanwhile. */
static void advance(struct digester *digester, struct digest_run *run)
{
    digester->hashing = run;
    pthread_mutex_unlock(&digester->lock);
    const uint64_t bytes = hash_piece(run);
    pthread_mutex_lock(&digester->lock);
    digester->hashing = NULL;
    fair_list_charge(&digester->runs, &run->item, bytes);
    if (run->unwanted)
        finish(digester, run, GEMMD_ERR_CANCELLED);
    else if (run->part == run->payload->count)
        finish(digester, run, GEMMD_OK);
}

static struct digest_run *next_run(const struct digester *digester)
{
    struct fair_item *item = fair_list_first(&digester->runs);
    return item == NULL ? NULL : OWNER_OF(item, struct digest_run, item);
}

static void *digester_run(void *argument)
{
    struct digester *digester = argument;
    struct digest_run *run;
    pthread_setname_np(pthread_self(), "digester");
    pthread_mutex_lock(&digester->lock);
    while (!digester->stopping) {
        heartbeat_beat(&digester->heartbeat);
        run = next_run(digester);
        if (run != NULL)
            advance(digester, run);
        else
            pthread_cond_wait(&digester->changed, &digester->lock);
    }
    while ((run = next_run(digester)) != NULL)
        finish(digester, run, GEMMD_ERR_DRAINING);
    pthread_mutex_unlock(&digester->lock);
    return NULL;
}

struct digester *digester_start(struct digester_hooks hooks, uint32_t tenants)
{
    struct digester *digester = calloc(1, sizeof *digester);
    if (digester == NULL)
        return NULL;
    digester->hooks = hooks;
    if (!fair_list_open(&digester->runs, tenants))
        goto no_runs;
    if (pthread_mutex_init(&digester->lock, NULL) != 0)
        goto no_lock;
    if (pthread_cond_init(&digester->changed, NULL) != 0)
        goto no_condition;
    if (pthread_create(&digester->thread, NULL, digester_run, digester) != 0)
        goto no_thread;
    return digester;

no_thread:
    pthread_cond_destroy(&digester->changed);
no_condition:
    pthread_mutex_destroy(&digester->lock);
no_lock:
    fair_list_close(&digester->runs);
no_runs:
    free(digester);
    return NULL;
}

bool digester_alive(struct digester *digester)
{
    const bool alive = heartbeat_look(&digester->heartbeat);
    pthread_mutex_lock(&digester->lock);
    pthread_cond_signal(&digester->changed);
    pthread_mutex_unlock(&digester->lock);
    return alive;
}

void digester_stop(struct digester *digester)
{
    if (digester == NULL)
        return;
    pthread_mutex_lock(&digester->lock);
    digester->stopping = true;
    pthread_cond_signal(&digester->changed);
    pthread_mutex_unlock(&digester->lock);
    pthread_join(digester->thread, NULL);
}

void digester_destroy(struct digester *digester)
{
    if (digester == NULL)
        return;
    pthread_cond_destroy(&digester->changed);
    pthread_mutex_destroy(&digester->lock);
    fair_list_close(&digester->runs);
    free(digester);
}

void digester_push(struct digester *digester, struct digest_run *run, uint32_t tenant)
{
    digester->hooks.hand_over(run->request); /* before the digester can wake the request */
    pthread_mutex_lock(&digester->lock);
    const bool takes = !digester->stopping;
    if (takes) {
        fair_list_add(&digester->runs, &run->item, tenant);
        pthread_cond_signal(&digester->changed);
    }
    pthread_mutex_unlock(&digester->lock);
    if (!takes)
        run_end(digester, run, GEMMD_ERR_DRAINING);
}

bool digester_withdraw(struct digester *digester, struct digest_run *run)
{
    pthread_mutex_lock(&digester->lock);
    const bool waits = fair_item_is_listed(&run->item) && digester->hashing != run;
    if (waits)
        fair_list_remove(&digester->runs, &run->item);
    else
        run->unwanted = true;
    pthread_mutex_unlock(&digester->lock);
    if (waits)
        digest_hashes_end(&run->hashes, NULL);
    return waits;
}
