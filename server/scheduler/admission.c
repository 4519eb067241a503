#include "server/scheduler/admission.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "proto/size.h"
#include "proto/size_text.h"
#include "server/base/drain_rate.h"

/* An amount that is held: `taken` minus `given`. Both counters only grow, except that `taken`
 * shrinks again when another limit refuses the same reservation. `given` is therefore also the
 * amount that has ended so far. */
struct tally {
    _Atomic uint64_t taken, given;
};

/* The reservations of all tenants, or of one tenant. An account has cache lines of its own. */
struct account {
    _Alignas(128) struct tally requests;
    struct tally bytes;
    struct drain_rate rate; /* under the admission's lock */
};

struct admission {
    /* The parts of the limits, which admission_set_limits may change at any time. A decision reads
     * each part once (limits_of). */
    uint32_t tenants;
    _Atomic uint32_t requests, tenant_requests;
    _Atomic uint64_t bytes, tenant_bytes, tenant_share_bytes;
    pthread_mutex_t lock; /* of the drain rates */
    _Atomic uint64_t refused[ADMISSION_LIMIT_COUNT];
    struct account whole;
    uint32_t count;            /* of `of_tenant`; 0: one tenant, without limits of its own */
    struct account *of_tenant; /* [count] */
};

static void *alloc_lines(uint64_t bytes)
{
    void *memory = aligned_alloc(_Alignof(struct account), bytes);
    if (memory != NULL)
        memset(memory, 0, bytes);
    return memory;
}

static struct admission_limits limits_of(const struct admission *admission)
{
    return (struct admission_limits){
        .requests = atomic_load_explicit(&admission->requests, memory_order_relaxed),
        .bytes = atomic_load_explicit(&admission->bytes, memory_order_relaxed),
        .tenants = admission->tenants,
        .tenant_requests = atomic_load_explicit(&admission->tenant_requests, memory_order_relaxed),
        .tenant_bytes = atomic_load_explicit(&admission->tenant_bytes, memory_order_relaxed),
        .tenant_share_bytes =
            atomic_load_explicit(&admission->tenant_share_bytes, memory_order_relaxed),
    };
}

void admission_set_limits(struct admission *admission, const struct admission_limits *limits)
{
    atomic_store_explicit(&admission->requests, limits->requests, memory_order_relaxed);
    atomic_store_explicit(&admission->bytes, limits->bytes, memory_order_relaxed);
    atomic_store_explicit(&admission->tenant_requests, limits->tenant_requests,
                          memory_order_relaxed);
    atomic_store_explicit(&admission->tenant_bytes, limits->tenant_bytes, memory_order_relaxed);
    atomic_store_explicit(&admission->tenant_share_bytes, limits->tenant_share_bytes,
                          memory_order_relaxed);
}

struct admission *admission_create(const struct admission_limits *limits)
{
    struct admission *admission = alloc_lines(sizeof *admission);
    if (admission == NULL)
        return NULL;
    admission->tenants = limits->tenants;
    admission_set_limits(admission, limits);
    if (limits->tenants > 1 || limits->tenant_requests > 0 || limits->tenant_bytes > 0 ||
        limits->tenant_share_bytes > 0) {
        admission->count = limits->tenants > 0 ? limits->tenants : 1;
        admission->of_tenant = alloc_lines(admission->count * sizeof *admission->of_tenant);
        if (admission->of_tenant == NULL)
            goto no_accounts;
    }
    if (pthread_mutex_init(&admission->lock, NULL) != 0)
        goto no_lock;
    return admission;

no_lock:
    free(admission->of_tenant);
no_accounts:
    free(admission);
    return NULL;
}

void admission_destroy(struct admission *admission)
{
    if (admission == NULL)
        return;
    pthread_mutex_destroy(&admission->lock);
    free(admission->of_tenant);
    free(admission);
}

static struct account *account_of(const struct admission *admission, uint32_t tenant)
{
    assert(admission->count == 0 || tenant < admission->count);
    return admission->count == 0 ? NULL : &admission->of_tenant[tenant];
}

/* `given` is read first: `given` is never more than `taken`, and `taken` may grow in between. */
static uint64_t tally_held(const struct tally *tally)
{
    uint64_t given = atomic_load(&tally->given);
    return atomic_load(&tally->taken) - given;
}

/* Takes `amount` unless more than `limit` would be held with it. `*holding` becomes what is held
 * without `amount`. */
static bool tally_take(struct tally *tally, uint64_t amount, uint64_t limit, uint64_t *holding)
{
    uint64_t given = atomic_load(&tally->given), taken = atomic_load(&tally->taken);
    for (;;) {
        *holding = taken - given;
        if (amount > limit || *holding > limit - amount) {
            uint64_t given_now = atomic_load(&tally->given);
            if (given_now == given)
                return false;
            given = given_now; /* something was given back in the meantime */
            taken = atomic_load(&tally->taken);
        } else if (atomic_compare_exchange_weak(&tally->taken, &taken, taken + amount)) {
            return true;
        }
    }
}

static void tally_undo(struct tally *tally, uint64_t amount)
{
    atomic_fetch_sub(&tally->taken, amount);
}

static enum gemmd_error admission_refuse(struct admission *admission, enum admission_limit limit,
                                         uint64_t holding, uint64_t most, uint64_t bytes,
                                         struct fault *fault)
{
    const bool own =
        limit == ADMISSION_LIMIT_TENANT_REQUESTS || limit == ADMISSION_LIMIT_TENANT_BYTES;
    const char *full = own ? "this tenant's part of the queue is full" : "the queue is full";
    atomic_fetch_add_explicit(&admission->refused[limit], 1, memory_order_relaxed);
    if (limit == ADMISSION_LIMIT_REQUESTS || limit == ADMISSION_LIMIT_TENANT_REQUESTS)
        return fault_set(fault, GEMMD_ERR_QUEUE_FULL, NULL,
                         "%s: %" PRIu64 " requests, which is the limit (--%s)", full, holding,
                         admission_limit_name(limit));
    return fault_set(fault, GEMMD_ERR_QUEUE_FULL, NULL,
                     "%s: %s of %s are taken, this request needs %s (--%s)", full,
                     size_text(holding).text, size_text(most).text, size_text(bytes).text,
                     admission_limit_name(limit));
}

static uint64_t or_none(uint64_t limit)
{
    return limit == 0 ? UINT64_MAX : limit;
}

/* The bytes that a tenant may hold together with one of its requests, which needs `bytes` in all. A
 * request that is larger than the share fits while the tenant holds nothing else. */
static uint64_t tenant_most(const struct admission_limits *limits, uint64_t bytes)
{
    const uint64_t most = or_none(limits->tenant_bytes),
                   share = or_none(limits->tenant_share_bytes);
    const uint64_t shared = bytes > share ? bytes : share;
    return shared < most ? shared : most;
}

/* Takes `more` bytes for one request that needs `bytes` in all. `own`: the account is a tenant's.
 */
static enum gemmd_error account_take_bytes(struct admission *admission, struct account *account,
                                           bool own, uint64_t bytes, uint64_t more,
                                           struct fault *fault)
{
    const struct admission_limits limits = limits_of(admission);
    uint64_t most = own ? tenant_most(&limits, bytes) : limits.bytes, holding;
    if (tally_take(&account->bytes, more, most, &holding))
        return GEMMD_OK;
    return admission_refuse(admission, own ? ADMISSION_LIMIT_TENANT_BYTES : ADMISSION_LIMIT_BYTES,
                            holding - (bytes - more), most, bytes, fault);
}

static enum gemmd_error account_take(struct admission *admission, struct account *account, bool own,
                                     uint64_t bytes, struct fault *fault)
{
    const struct admission_limits limits = limits_of(admission);
    uint64_t most = own ? or_none(limits.tenant_requests) : limits.requests;
    uint64_t holding;
    if (!tally_take(&account->requests, 1, most, &holding))
        return admission_refuse(admission,
                                own ? ADMISSION_LIMIT_TENANT_REQUESTS : ADMISSION_LIMIT_REQUESTS,
                                holding, most, bytes, fault);
    enum gemmd_error code = account_take_bytes(admission, account, own, bytes, bytes, fault);
    if (code != GEMMD_OK)
        tally_undo(&account->requests, 1);
    return code;
}

static enum gemmd_error check_fits(const struct admission *admission, uint64_t bytes,
                                   struct fault *fault)
{
    const struct admission_limits limits = limits_of(admission);
    if (bytes > limits.bytes)
        return fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL,
                         "the body and the result would be %s; --%s is %s", size_text(bytes).text,
                         admission_limit_name(ADMISSION_LIMIT_BYTES), size_text(limits.bytes).text);
    if (bytes > or_none(limits.tenant_bytes))
        return fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL,
                         "the body and the result would be %s; --%s is %s", size_text(bytes).text,
                         admission_limit_name(ADMISSION_LIMIT_TENANT_BYTES),
                         size_text(limits.tenant_bytes).text);
    return GEMMD_OK;
}

enum gemmd_error admission_take(struct admission *admission, uint32_t tenant, uint64_t bytes,
                                struct reservation *reservation, struct fault *fault)
{
    struct account *own = account_of(admission, tenant);
    enum gemmd_error code = check_fits(admission, bytes, fault);
    /* The tenant's own account comes first: a tenant that is over its own limit takes nothing from
     * the other tenants, not even for a moment. */
    if (code == GEMMD_OK && own != NULL)
        code = account_take(admission, own, true, bytes, fault);
    if (code != GEMMD_OK)
        return code;
    code = account_take(admission, &admission->whole, false, bytes, fault);
    if (code == GEMMD_OK) {
        *reservation = (struct reservation){admission, tenant, bytes};
    } else if (own != NULL) {
        tally_undo(&own->bytes, bytes);
        tally_undo(&own->requests, 1);
    }
    return code;
}

enum gemmd_error admission_grow(struct reservation *reservation, uint64_t bytes,
                                struct fault *fault)
{
    if (bytes <= reservation->bytes)
        return GEMMD_OK;
    struct admission *admission = reservation->admission;
    struct account *own = account_of(admission, reservation->tenant);
    const uint64_t more = bytes - reservation->bytes;
    enum gemmd_error code = check_fits(admission, bytes, fault);
    if (code == GEMMD_OK && own != NULL)
        code = account_take_bytes(admission, own, true, bytes, more, fault);
    if (code != GEMMD_OK)
        return code;
    code = account_take_bytes(admission, &admission->whole, false, bytes, more, fault);
    if (code == GEMMD_OK)
        reservation->bytes = bytes;
    else if (own != NULL)
        tally_undo(&own->bytes, more);
    return code;
}

static void account_give(struct account *account, uint64_t bytes, bool whole)
{
    assert(tally_held(&account->requests) > 0 && tally_held(&account->bytes) >= bytes);
    atomic_fetch_add(&account->bytes.given, bytes);
    if (whole)
        atomic_fetch_add(&account->requests.given, 1);
}

/* Gives back some bytes of a reservation, or (`whole`) the reservation. */
static void reservation_give(struct reservation *reservation, uint64_t bytes, bool whole)
{
    struct account *own = account_of(reservation->admission, reservation->tenant);
    account_give(&reservation->admission->whole, bytes, whole);
    if (own != NULL)
        account_give(own, bytes, whole);
    reservation->bytes -= bytes;
}

void admission_give(struct reservation *reservation)
{
    if (reservation->admission != NULL)
        reservation_give(reservation, reservation->bytes, true);
    reservation->admission = NULL;
}

struct reservation admission_move(struct reservation *reservation)
{
    const struct reservation moved = *reservation;
    *reservation = (struct reservation){.admission = NULL};
    return moved;
}

void admission_keep(struct reservation *reservation, uint64_t sent)
{
    if (sent <= ADMISSION_SENT_AT_ONCE_BYTES)
        admission_give(reservation);
    else if (reservation->admission != NULL && sent < reservation->bytes)
        reservation_give(reservation, reservation->bytes - sent, false);
}

static void account_sample(struct account *account, uint64_t now_ns)
{
    drain_rate_sample(&account->rate, now_ns, atomic_load(&account->requests.given),
                      atomic_load(&account->bytes.given), tally_held(&account->requests) > 0);
}

void admission_sample(struct admission *admission, uint64_t now_ns)
{
    pthread_mutex_lock(&admission->lock);
    account_sample(&admission->whole, now_ns);
    for (uint32_t i = 0; i < admission->count; i++)
        account_sample(&admission->of_tenant[i], now_ns);
    pthread_mutex_unlock(&admission->lock);
}

/* By how much the limit would be exceeded with `amount` more. */
static uint64_t tally_excess(const struct tally *tally, uint64_t amount, uint64_t limit)
{
    uint64_t room = limit - amount, holding = tally_held(tally); /* amount <= limit */
    return holding > room ? holding - room : 0;
}

static uint32_t account_wait_s(const struct account *account, uint64_t bytes,
                               uint64_t requests_most, uint64_t bytes_most)
{
    uint64_t requests_over = tally_excess(&account->requests, 1, requests_most);
    uint64_t bytes_over = tally_excess(&account->bytes, bytes, bytes_most);
    uint32_t seconds = DRAIN_SECONDS_MIN;
    if (requests_over > 0)
        seconds = drain_rate_seconds(&account->rate, requests_over);
    if (bytes_over > 0) {
        uint32_t for_bytes = drain_rate_seconds_bytes(&account->rate, bytes_over);
        seconds = for_bytes > seconds ? for_bytes : seconds;
    }
    return seconds;
}

uint32_t admission_wait_s(struct admission *admission, uint32_t tenant, uint64_t bytes)
{
    const struct admission_limits limits = limits_of(admission);
    const struct account *own = account_of(admission, tenant);
    if (bytes > limits.bytes || bytes > or_none(limits.tenant_bytes))
        return DRAIN_SECONDS_MAX; /* never */
    pthread_mutex_lock(&admission->lock);
    uint32_t seconds = account_wait_s(&admission->whole, bytes, limits.requests, limits.bytes);
    uint32_t for_own = own == NULL ? 0
                                   : account_wait_s(own, bytes, or_none(limits.tenant_requests),
                                                    tenant_most(&limits, bytes));
    pthread_mutex_unlock(&admission->lock);
    return for_own > seconds ? for_own : seconds;
}

uint32_t admission_drain_s(struct admission *admission, uint64_t bytes)
{
    pthread_mutex_lock(&admission->lock);
    uint32_t seconds = drain_rate_seconds_bytes(&admission->whole.rate, bytes);
    pthread_mutex_unlock(&admission->lock);
    return seconds;
}

struct admission_held admission_held(const struct admission *admission)
{
    return (struct admission_held){tally_held(&admission->whole.requests),
                                   tally_held(&admission->whole.bytes)};
}

struct admission_held admission_held_by(const struct admission *admission, uint32_t tenant)
{
    const struct account *own = account_of(admission, tenant);
    return own == NULL
               ? admission_held(admission)
               : (struct admission_held){tally_held(&own->requests), tally_held(&own->bytes)};
}

uint64_t admission_refused(const struct admission *admission, enum admission_limit limit)
{
    return atomic_load_explicit(&admission->refused[limit], memory_order_relaxed);
}

const char *admission_limit_name(enum admission_limit limit)
{
    static const char *const names[ADMISSION_LIMIT_COUNT] = {
        [ADMISSION_LIMIT_REQUESTS] = "queue-requests",
        [ADMISSION_LIMIT_BYTES] = "queue-bytes",
        [ADMISSION_LIMIT_TENANT_REQUESTS] = "tenant-requests",
        [ADMISSION_LIMIT_TENANT_BYTES] = "tenant-bytes",
    };
    return names[limit];
}
