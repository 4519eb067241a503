/* The answers of jobs (job.h). */

#include <stdbool.h>
#include <stdlib.h>

#include "proto/size_text.h"
#include "server/jobs/jobs_parts.h"

struct job_answer *job_answer_create(struct job_budget *budget)
{
    struct job_answer *answer = calloc(1, sizeof *answer);
    if (answer == NULL)
        return NULL;
    answer->budget = budget;
    atomic_init(&answer->references, 1);
    return answer;
}

static bool budget_take(struct job_budget *budget, uint64_t bytes, uint64_t most, uint64_t *taken)
{
    *taken = atomic_load(&budget->bytes);
    do {
        if (*taken > most || bytes > most - *taken) {
            atomic_fetch_add(&budget->refused, 1);
            return false;
        }
    } while (!atomic_compare_exchange_weak(&budget->bytes, taken, *taken + bytes));
    return true;
}

static void budget_give(struct job_budget *budget, uint64_t bytes)
{
    atomic_fetch_sub(&budget->whole->bytes, bytes);
    atomic_fetch_sub(&budget->bytes, bytes);
}

/* The most bytes that a tenant's answers may have, with a new one of `bytes`, if the tenant's
 * budget has `limit`. An answer that is larger than the budget fits while the tenant has no other.
 */
static uint64_t tenant_most(uint64_t limit, uint64_t bytes)
{
    if (limit == 0)
        return UINT64_MAX;
    return bytes > limit ? bytes : limit;
}

enum gemmd_error job_answer_reserve(struct job_answer *answer, uint64_t bytes, bool *whole_is_full,
                                    struct fault *fault)
{
    struct job_budget *own = answer->budget, *budget = own->whole;
    const uint64_t limit = atomic_load(&budget->max_bytes),
                   own_limit = atomic_load(&own->max_bytes);
    uint64_t taken;
    if (bytes > limit)
        return fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL,
                         "the result would be %s; those of all jobs together can have %s "
                         "(--job-bytes)",
                         size_text(bytes).text, size_text(limit).text);
    if (!budget_take(own, bytes, tenant_most(own_limit, bytes), &taken))
        return fault_set(fault, GEMMD_ERR_QUEUE_FULL, NULL,
                         "the results of this tenant's jobs take %s of %s (--tenant-share of "
                         "--job-bytes), this one needs %s; delete jobs whose results you have "
                         "fetched",
                         size_text(taken).text, size_text(own_limit).text, size_text(bytes).text);
    if (!budget_take(budget, bytes, limit, &taken)) {
        atomic_fetch_sub(&own->bytes, bytes);
        *whole_is_full = true;
        return fault_set(fault, GEMMD_ERR_QUEUE_FULL, NULL,
                         "the results of jobs take %s of %s (--job-bytes), this one needs %s; "
                         "delete jobs whose results you have fetched",
                         size_text(taken).text, size_text(limit).text, size_text(bytes).text);
    }
    answer->payload = malloc(bytes > 0 ? bytes : 1);
    if (answer->payload == NULL) {
        budget_give(own, bytes);
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for a result of %s",
                         size_text(bytes).text);
    }
    answer->bytes = bytes;
    return GEMMD_OK;
}

static void free_payload(struct job_answer *answer)
{
    free(answer->payload);
    budget_give(answer->budget, answer->bytes);
    answer->payload = NULL;
    answer->bytes = 0;
}

void job_answer_fail(struct job_answer *answer, const struct fault *fault)
{
    free_payload(answer);
    answer->fault = *fault;
    answer->status = error_status(fault->code);
}

void job_answer_hold(struct job_answer *answer)
{
    atomic_fetch_add(&answer->references, 1);
}

void job_answer_release(struct job_answer *answer)
{
    if (answer == NULL || atomic_fetch_sub(&answer->references, 1) > 1)
        return;
    free_payload(answer);
    free(answer);
}
