#include "server/observe/otlp.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/base/clock.h"
#include "server/observe/otlp_http.h"
#include "server/observe/otlp_record.h"

/* Records that the queue holds and that are sent together, and attempts to send them. */
enum { QUEUE_RECORDS = 2048, SENDING_RECORDS = 128, OTLP_TRIES = 6 };

static const uint64_t NS_PER_S = 1000000000;
static const uint64_t DELAY_NS = 1000000000; /* how long a record waits for others to go with */
static const uint64_t PAUSE_MAX_S = 60;      /* between two attempts */
static const uint64_t STOP_NS = 2000000000;  /* how long otlp_stop sends the last records */

struct otlp {
    struct log *log; /* borrowed */
    const char *version;
    struct otlp_http *http;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stopping;          /* under the lock */
    bool ended;             /* of the thread; under the lock */
    uint32_t first, length; /* of the ring, under the lock */
    uint64_t sent, dropped; /* spans; under the lock */
    struct otlp_record *ring;
    /* UINT64_MAX until the exporter is stopped */
    _Atomic uint64_t give_up_ns;

    /* Used by the exporter's thread only. */
    struct otlp_record *sending;
    uint64_t id_state;
    bool failing; /* the last transfer failed, and the log says so */
};

/* Waits until `until_ns`, or until the exporter is stopped. The lock is held. */
static void wait_until(struct otlp *otlp, uint64_t until_ns)
{
    const struct timespec until = {.tv_sec = (time_t)(until_ns / NS_PER_S),
                                   .tv_nsec = (long)(until_ns % NS_PER_S)};
    pthread_cond_timedwait(&otlp->changed, &otlp->lock, &until);
}

/* Logs, unless the exporter is being stopped: the log may be gone when a thread that was left
 * behind goes on. */
static void note(struct otlp *otlp, enum config_log_level level, const char *text)
{
    pthread_mutex_lock(&otlp->lock);
    if (!otlp->stopping)
        log_event(otlp->log, level, "%s", text);
    pthread_mutex_unlock(&otlp->lock);
}

static void count(struct otlp *otlp, uint64_t sent, uint64_t dropped)
{
    pthread_mutex_lock(&otlp->lock);
    otlp->sent += sent;
    otlp->dropped += dropped;
    pthread_mutex_unlock(&otlp->lock);
}

/* Whether a transfer with this answer may be tried again. */
static bool is_retriable(const struct otlp_answer *answer)
{
    return answer->status == 0 || answer->status == 429 || answer->status == 502 ||
           answer->status == 503 || answer->status == 504;
}

static void note_failure(struct otlp *otlp, const struct otlp_answer *answer)
{
    char text[256];
    if (otlp->failing)
        return;
    otlp->failing = true;
    if (answer->status != 0)
        snprintf(text, sizeof text,
                 "the collector of --otlp-endpoint does not take spans: it answers %d",
                 answer->status);
    else
        snprintf(text, sizeof text, "the collector of --otlp-endpoint does not take spans: %s",
                 answer->error);
    note(otlp, CONFIG_LOG_WARNING, text);
}

/* Pauses after a failed transfer. Returns false if the exporter is being stopped. */
static bool pause_after(struct otlp *otlp, const struct otlp_answer *answer, uint32_t attempt)
{
    uint64_t pause_s = answer->retry_after_s > 0 ? answer->retry_after_s : UINT64_C(1) << attempt;
    if (pause_s > PAUSE_MAX_S)
        pause_s = PAUSE_MAX_S;
    const uint64_t until_ns = clock_now_ns() + pause_s * NS_PER_S;
    pthread_mutex_lock(&otlp->lock);
    while (!otlp->stopping && clock_now_ns() < until_ns)
        wait_until(otlp, until_ns);
    const bool goes_on = !otlp->stopping;
    pthread_mutex_unlock(&otlp->lock);
    return goes_on;
}

/* The number of spans that the collector's answer says it has rejected. */
static uint64_t rejected_spans(const struct otlp_answer *answer)
{
    json_t *root = json_loads(answer->body, 0, NULL);
    const json_t *number =
        json_object_get(json_object_get(root, "partialSuccess"), "rejectedSpans");
    uint64_t rejected = 0;
    if (json_is_string(number))
        rejected = strtoull(json_string_value(number), NULL, 10);
    else if (json_is_integer(number) && json_integer_value(number) > 0)
        rejected = (uint64_t)json_integer_value(number);
    json_decref(root);
    return rejected;
}

/* Sends a body until the collector takes or refuses it. Returns whether it was taken. */
static bool send_body(struct otlp *otlp, const char *text, struct otlp_answer *answer)
{
    for (uint32_t attempt = 0; attempt < OTLP_TRIES; attempt++) {
        otlp_http_post(otlp->http, text, answer);
        if (answer->status >= 200 && answer->status < 300) {
            if (otlp->failing)
                note(otlp, CONFIG_LOG_INFO, "the collector of --otlp-endpoint takes spans again");
            otlp->failing = false;
            return true;
        }
        note_failure(otlp, answer);
        if (!is_retriable(answer) || !pause_after(otlp, answer, attempt))
            return false;
    }
    return false;
}

static void send_records(struct otlp *otlp, uint32_t records)
{
    struct otlp_answer answer;
    uint64_t spans = 0, rejected = 0;
    for (uint32_t i = 0; i < records; i++)
        spans += otlp_record_spans(&otlp->sending[i]);
    char *text = otlp_records_json(otlp->sending, records, otlp->version, &otlp->id_state);
    const bool taken = text != NULL && send_body(otlp, text, &answer);
    free(text);
    if (taken)
        rejected = rejected_spans(&answer);
    if (!taken || rejected > spans)
        rejected = spans;
    count(otlp, spans - rejected, rejected);
}

/* Waits for records that are sent together, and takes them out of the queue. 0: the exporter is
 * stopped, and the queue is empty or the time for the last records is over. */
static uint32_t take_records(struct otlp *otlp)
{
    pthread_mutex_lock(&otlp->lock);
    while (!otlp->stopping && otlp->length == 0)
        pthread_cond_wait(&otlp->changed, &otlp->lock);
    const uint64_t until_ns = clock_now_ns() + DELAY_NS;
    while (!otlp->stopping && otlp->length < SENDING_RECORDS && clock_now_ns() < until_ns)
        wait_until(otlp, until_ns);
    uint32_t records = otlp->length < SENDING_RECORDS ? otlp->length : SENDING_RECORDS;
    if (clock_now_ns() > atomic_load(&otlp->give_up_ns))
        records = 0;
    for (uint32_t i = 0; i < records; i++)
        otlp->sending[i] = otlp->ring[(otlp->first + i) % QUEUE_RECORDS];
    otlp->first = (otlp->first + records) % QUEUE_RECORDS;
    otlp->length -= records;
    pthread_mutex_unlock(&otlp->lock);
    return records;
}

static void *otlp_run(void *argument)
{
    struct otlp *otlp = argument;
    uint32_t records;
    pthread_setname_np(pthread_self(), "otlp");
    while ((records = take_records(otlp)) > 0)
        send_records(otlp, records);
    pthread_mutex_lock(&otlp->lock);
    otlp->ended = true;
    pthread_cond_broadcast(&otlp->changed);
    pthread_mutex_unlock(&otlp->lock);
    return NULL;
}

static void otlp_free(struct otlp *otlp)
{
    otlp_http_close(otlp->http);
    free(otlp->ring);
    free(otlp->sending);
    free(otlp);
}

static bool start_thread(struct otlp *otlp)
{
    pthread_condattr_t attributes;
    if (pthread_mutex_init(&otlp->lock, NULL) != 0)
        return false;
    if (pthread_condattr_init(&attributes) != 0)
        goto no_attributes;
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    const bool has_condition = pthread_cond_init(&otlp->changed, &attributes) == 0;
    pthread_condattr_destroy(&attributes);
    if (!has_condition)
        goto no_attributes;
    if (pthread_create(&otlp->thread, NULL, otlp_run, otlp) == 0)
        return true;
    pthread_cond_destroy(&otlp->changed);

no_attributes:
    pthread_mutex_destroy(&otlp->lock);
    return false;
}

enum gemmd_error otlp_start(const struct otlp_collector *collector, const char *version,
                            struct log *log, struct otlp **out, struct fault *fault)
{
    struct otlp *otlp = calloc(1, sizeof *otlp);
    if (otlp == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, "otlp-endpoint", "no memory for spans");
    otlp->log = log;
    otlp->version = version;
    otlp->id_state = clock_now_ns() * 0x9e3779b97f4a7c15u;
    atomic_store(&otlp->give_up_ns, UINT64_MAX);
    otlp->ring = calloc(QUEUE_RECORDS, sizeof *otlp->ring);
    otlp->sending = calloc(SENDING_RECORDS, sizeof *otlp->sending);
    enum gemmd_error code = GEMMD_OK;
    if (otlp->ring == NULL || otlp->sending == NULL)
        code = fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, "otlp-endpoint", "no memory for spans");
    if (code == GEMMD_OK)
        code = otlp_http_open(collector, &otlp->give_up_ns, &otlp->http, fault);
    if (code == GEMMD_OK && !start_thread(otlp))
        code = fault_set(fault, GEMMD_ERR_INTERNAL, "otlp-endpoint",
                         "the thread of --otlp-endpoint did not start");
    if (code == GEMMD_OK)
        *out = otlp;
    else
        otlp_free(otlp);
    return code;
}

enum gemmd_error otlp_check(const struct otlp_collector *collector, struct fault *fault)
{
    static const _Atomic uint64_t never_ns = UINT64_MAX;
    struct otlp_http *http = NULL;
    const enum gemmd_error code = otlp_http_open(collector, &never_ns, &http, fault);
    otlp_http_close(http);
    return code;
}

void otlp_stop(struct otlp *otlp)
{
    if (otlp == NULL)
        return;
    struct timespec until;
    atomic_store(&otlp->give_up_ns, clock_now_ns() + STOP_NS);
    /* libcurl looks at the time about once a second, and name resolution cannot be ended. */
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(2 * STOP_NS / NS_PER_S);
    pthread_mutex_lock(&otlp->lock);
    otlp->stopping = true;
    pthread_cond_broadcast(&otlp->changed);
    while (!otlp->ended && pthread_cond_timedwait(&otlp->changed, &otlp->lock, &until) == 0)
        continue;
    const bool ended = otlp->ended;
    pthread_mutex_unlock(&otlp->lock);
    if (!ended) {
        (void)pthread_detach(otlp->thread);
        return;
    }
    (void)pthread_join(otlp->thread, NULL);
    pthread_cond_destroy(&otlp->changed);
    pthread_mutex_destroy(&otlp->lock);
    otlp_free(otlp);
}

static void put(struct otlp *otlp, const struct trace_context *trace, const char *state,
                const struct log_access *entry, bool is_job)
{
    struct otlp_record record;
    otlp_record_fill(&record, trace, state, entry, is_job);
    pthread_mutex_lock(&otlp->lock);
    if (otlp->length == QUEUE_RECORDS) {
        otlp->dropped += otlp_record_spans(&record);
    } else {
        otlp->ring[(otlp->first + otlp->length) % QUEUE_RECORDS] = record;
        otlp->length++;
        if (otlp->length == 1 || otlp->length == SENDING_RECORDS)
            pthread_cond_signal(&otlp->changed);
    }
    pthread_mutex_unlock(&otlp->lock);
}

void otlp_request(struct otlp *otlp, const struct trace_context *trace, const char *state,
                  const struct log_access *entry)
{
    put(otlp, trace, state, entry, false);
}

void otlp_job(struct otlp *otlp, const struct trace_context *trace, const struct log_access *entry)
{
    put(otlp, trace, "", entry, true);
}

struct otlp_counts otlp_counts(struct otlp *otlp)
{
    pthread_mutex_lock(&otlp->lock);
    const struct otlp_counts counts = {otlp->sent, otlp->dropped};
    pthread_mutex_unlock(&otlp->lock);
    return counts;
}
