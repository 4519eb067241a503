#include "tests/simulate/requests.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/random_id.h"
#include "server/tensors/resident_copy.h"
#include "tests/simulate/operands.h"
#include "tests/simulate/reference.h"
#include "tests/simulate/threads.h"

static const uint64_t JOB_LOOK_NS = 5000000, JOB_MAX_NS = 120000000000u;

enum stage {
    STAGE_RECEIVING,
    STAGE_WORKING,  /* the work belongs to the queue and the dispatch thread */
    STAGE_GIVEN_UP, /* so it does, and nobody waits for the result */
    STAGE_HASHING,  /* the copy of an upload has ended, and its hash has not */
    STAGE_SENDING,
    STAGE_JOB, /* the client asks for the result of its job now and then */
    STAGE_OVER
};

/* A request, and what the I/O thread holds for it. */
struct client_request {
    struct request_traits traits;
    struct io_thread *io;
    struct client_request *next; /* of the I/O thread */
    struct totals *totals;
    struct inbox_message arrival, wake;
    enum stage stage;
    uint64_t due_ns; /* when the I/O thread goes on; UINT64_MAX: the work's end or nothing */
    uint64_t number, contents, sent_ns;
    char tenant[8], name[32];
    float *body; /* what the client sends */
    uint64_t body_bytes, received_bytes;
    float *expected;
    uint32_t ends; /* calls of `done` since the last push */
    struct compute_call call;
    /* Of a PUT: */
    struct reservation reservation;
    struct resident *resident, *copy;
    unsigned char *block;
    struct work work;
    uint32_t next_device;
    /* Of a job: */
    struct job *job;
    char job_id[JOB_ID_TEXT + 1];
    bool deleted;
};

/* The call of a job, as in compute_job.c. */
struct job_call {
    struct daemon *daemon;
    struct job *job;
    struct job_owner owner;
    struct compute_call call;
    struct job_errand errand;
    uint32_t ends;
};

/* ---- operands ---- */

static void etag_of(uint64_t contents, char etag[TENSOR_ETAG_SIZE])
{
    snprintf(etag, TENSOR_ETAG_SIZE, "\"%016" PRIx64 "\"", contents);
}

/* Writes the body of a request to compute, or of a tensor. */
static void write_body(struct client_request *request)
{
    const uint64_t count = operands_in_body(&request->traits);
    request->body_bytes = count * sizeof(float);
    request->body = own_memory(request->body_bytes);
    operands_fill(request->contents, request->body, count);
}

/* Computes what the answer has to be. `b_contents` are those of the resident B. */
static void compute_expected(struct client_request *request, uint64_t b_contents)
{
    const struct request_traits *t = &request->traits;
    float *b = NULL;
    if (t->b >= 0) {
        b = own_memory(t->k * t->n * sizeof(float));
        operands_fill(b_contents, b, t->k * t->n);
    }
    request->expected = own_memory(operands_in_result(t) * sizeof(float));
    const struct task task = operands_task(t, request->body, b, request->expected);
    reference_compute(&task);
    free(b);
}

static void check_answer(const struct client_request *request, const void *bytes, uint64_t count)
{
    const uint64_t wanted = operands_in_result(&request->traits) * sizeof(float);
    if (count != wanted || memcmp(bytes, request->expected, wanted) != 0)
        fail("request %" PRIu64 " of tenant %u: the answer has other bytes than the result",
             request->number, request->traits.tenant);
}

/* ---- the end of a request ---- */

static void end(struct client_request *request, const char *how)
{
    struct daemon *daemon = request->io->daemon;
    trace("request %" PRIu64 " of tenant %u: %s", request->number, request->traits.tenant, how);
    request->stage = STAGE_OVER;
    daemon->active--;
}

static void end_failed(struct client_request *request, const struct fault *fault)
{
    struct totals *totals = request->totals;
    switch (fault->code) {
    case GEMMD_ERR_QUEUE_FULL:
    case GEMMD_ERR_DRAINING:
        totals->refused++;
        break;
    case GEMMD_ERR_DEADLINE:
        totals->expired++;
        break;
    default:
        totals->failed++;
    }
    end(request, fault->detail);
}

/* No request is refused with an error that says nothing. */
static void check_is_explained(const struct client_request *request, const struct fault *fault)
{
    if (fault->code == GEMMD_ERR_INTERNAL)
        fail("request %" PRIu64 " is refused with an internal error: %s", request->number,
             fault->detail);
}

/* ---- products ---- */

static struct services *services_of_io(const struct client_request *request)
{
    return &request->io->daemon->services;
}

static void compute_done(struct work *work)
{
    struct client_request *request = OWNER_OF(work, struct client_request, call.work);
    if (++request->ends != 1)
        fail("request %" PRIu64 " ends twice", request->number);
    inbox_post(&request->io->inbox, &request->wake);
}

static void set_parameter(struct client_request *request, const char *name, const char *value)
{
    struct fault fault = {.detail = ""};
    if (parameter_set(request->call.operation->parameters, &request->call.request, name, value,
                      &fault) != GEMMD_OK)
        fail("parameter %s: %s", name, fault.detail);
}

static void set_number(struct client_request *request, const char *name, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    set_parameter(request, name, text);
}

static void set_parameters(struct client_request *request)
{
    const struct request_traits *t = &request->traits;
    set_number(request, "priority", t->priority);
    set_parameter(request, "dtype", "f32");
    if (t->operation == OPERATION_GEMM) {
        set_number(request, "m", t->m);
        set_number(request, "n", t->n);
        set_number(request, "k", t->k);
        set_number(request, "batch", t->batch);
        if (t->tiled)
            set_parameter(request, "kernel", "tiled");
        if (t->verified)
            set_parameter(request, "verify", "freivalds");
    } else if (t->operation == OPERATION_ATTENTION) {
        set_number(request, "batch", t->batch);
        set_number(request, "heads", t->n);
        set_number(request, "sq", t->m);
        set_number(request, "d", t->k);
        set_parameter(request, "scale", "0.25");
    } else if (t->operation == OPERATION_CONV2D) {
        set_number(request, "batch", t->batch);
        set_number(request, "channels", CONV_CHANNELS);
        set_number(request, "height", t->m);
        set_number(request, "width", t->n);
        set_number(request, "filters", t->k);
        set_number(request, "filter_h", CONV_SIDE);
        set_number(request, "filter_w", CONV_SIDE);
        set_parameter(request, "padding", "same");
    } else {
        char shape[48];
        snprintf(shape, sizeof shape, "%" PRIu64 ",%" PRIu64, t->m, t->n);
        set_parameter(request, "shape", shape);
        if (t->operation == OPERATION_REDUCE)
            set_parameter(request, "op", "sum");
    }
    if (t->timeout_ms > 0)
        set_number(request, "timeout_ms", t->timeout_ms);
    if (t->b >= 0)
        set_parameter(request, "b", request->name);
}

/* Notes which contents the resident B has, which its tag says. */
static void note_b(struct client_request *request)
{
    const struct resident *b = request->call.residents.b;
    uint64_t contents = 0;
    if (b != NULL) {
        const char *etag = resident_etag(b);
        if (etag == NULL || sscanf(etag, "\"%" SCNx64 "\"", &contents) != 1)
            fail("the tensor %s has no entity tag any more", request->name);
        if (request->io->daemon->knows_lost[resident_device(b)])
            fail("the tensor %s is on device %u, which the store knows to be lost", request->name,
                 resident_device(b));
    }
    compute_expected(request, contents);
}

static void close_call(struct client_request *request)
{
    compute_call_close(&request->call, services_of_io(request));
    job_discard(request->job);
    request->job = NULL;
}

static const struct call_operation *const operations[OPERATION_COUNT] = {
    [OPERATION_GEMM] = &call_gemm,       [OPERATION_ATTENTION] = &call_attention,
    [OPERATION_CONV2D] = &call_conv2d,   [OPERATION_REDUCE] = &call_reduce,
    [OPERATION_SOFTMAX] = &call_softmax,
};

static enum gemmd_error open_product(struct client_request *request, struct fault *fault)
{
    struct compute_call *call = &request->call;
    struct services *services = services_of_io(request);
    const struct request_traits *t = &request->traits;
    *call = (struct compute_call){.config = &request->io->daemon->config,
                                  .memory = request->io->memory,
                                  .work.tenant = t->tenant};
    compute_call_begin(call, operations[t->operation]);
    set_parameters(request);
    enum gemmd_error code = compute_call_settle(call, services, request->tenant, fault);
    if (code == GEMMD_OK)
        note_b(request);
    if (t->timeout_ms > 0)
        call->deadline_ns = now_ns() + t->timeout_ms * 1000000u;
    if (code == GEMMD_OK)
        code = compute_call_layout(call, fault);
    const struct body_length length = {.known = true, .bytes = request->body_bytes};
    if (code == GEMMD_OK)
        code = compute_call_open(call, services, length, fault);
    if (code == GEMMD_OK && t->kind == REQUEST_JOB)
        code = job_open(services->jobs, request->tenant, t->tenant, "gemm", "", now_ns(),
                        &request->job, fault);
    if (code == GEMMD_OK && t->kind == REQUEST_JOB)
        code = job_reserve(request->job, call->header_bytes + call->result_bytes, now_ns(), fault);
    if (code == GEMMD_OK)
        code = compute_call_look_ahead(call, services, fault);
    return code;
}

static void begin_product(struct client_request *request)
{
    struct fault fault = {.detail = ""};
    if (open_product(request, &fault) != GEMMD_OK) {
        check_is_explained(request, &fault);
        close_call(request);
        end_failed(request, &fault);
        return;
    }
    request->stage = STAGE_RECEIVING;
    request->due_ns = now_ns();
}

/* ---- jobs, as in compute_job.c ---- */

#define JOB_OF(pointer, member) OWNER_OF(pointer, struct job_call, member)

static bool job_advance(struct job_errand *errand)
{
    struct job_call *job = JOB_OF(errand, errand);
    struct job_answer *answer = job_answer(job->job);
    job->call.memory = job_thread_memory(job->daemon->services.job_thread);
    if (errand->bytes > 0 && !job_is_cancelled(job->job))
        memcpy(answer->payload, job->call.result, answer->bytes);
    if (job->call.work.status != GEMMD_OK)
        job_answer_fail(answer, &job->call.work.fault);
    else
        answer->status = 200;
    compute_call_close(&job->call, &job->daemon->services);
    job_finish(job->job, now_ns());
    free(job);
    return false;
}

static void job_started(struct work *work)
{
    job_start(JOB_OF(work, call.work)->job, now_ns());
}

static void job_done(struct work *work)
{
    struct job_call *job = JOB_OF(work, call.work);
    if (++job->ends != 1)
        fail("a job's work ends twice");
    if (work->status == GEMMD_OK)
        job->errand.bytes = job_answer(job->job)->bytes;
    job_thread_post(job->daemon->services.job_thread, &job->errand);
}

static void job_cancel(struct job_owner *owner)
{
    struct job_call *job = JOB_OF(owner, owner);
    if (!compute_call_cancel(&job->call))
        return;
    job->call.work.status =
        fault_set(&job->call.work.fault, GEMMD_ERR_CANCELLED, NULL, "the job was cancelled");
    job_done(&job->call.work);
}

static void submit_job(struct client_request *request)
{
    struct daemon *daemon = request->io->daemon;
    struct job_call *job = calloc(1, sizeof *job);
    struct job_view view;
    if (job == NULL) {
        close_call(request);
        request->totals->failed++;
        end(request, "no memory for a job");
        return;
    }
    *job = (struct job_call){.daemon = daemon,
                             .job = request->job,
                             .owner.cancel = job_cancel,
                             .errand = {.tenant = request->traits.tenant, .advance = job_advance}};
    compute_call_move(&job->call, &request->call);
    request->job = NULL;
    close_call(request);
    struct work *work = &job->call.work;
    work->started = job_started;
    work->done = job_done;
    work->queued_ns = now_ns();
    job_accept(job->job, &job->owner, work->queued_ns, &view);
    memcpy(request->job_id, view.id, sizeof request->job_id);
    request->stage = STAGE_JOB;
    request->due_ns = now_ns() + JOB_LOOK_NS;
    compute_call_push(&job->call);
}

/* The client asks for its job, takes the result, or deletes the job. */
static void look_at_job(struct client_request *request)
{
    struct services *services = services_of_io(request);
    struct job_view view;
    struct job_answer *answer = NULL;
    struct fault fault = {.detail = ""};
    request->due_ns = now_ns() + JOB_LOOK_NS;
    if (request->traits.leaves_ns != 0 && now_ns() >= request->traits.leaves_ns &&
        !request->deleted) {
        request->deleted = true;
        (void)jobs_delete(services->jobs, request->job_id, request->tenant, now_ns(), &view,
                          &fault);
    }
    const enum gemmd_error code = jobs_find(services->jobs, request->job_id, request->tenant,
                                            now_ns(), &view, &answer, &fault);
    if (code == GEMMD_OK && (view.state == JOB_QUEUED || view.state == JOB_RUNNING)) {
        if (now_ns() - request->sent_ns > JOB_MAX_NS)
            fail("the job of request %" PRIu64 " has not ended", request->number);
        return;
    }
    if (code == GEMMD_ERR_NOT_FOUND && !request->deleted && now_ns() < request->due_ns)
        fail("the job of request %" PRIu64 " is not found", request->number);
    if (code == GEMMD_OK && view.state == JOB_DONE && answer != NULL) {
        check_answer(request, answer->payload, answer->bytes);
        request->totals->jobs++;
    }
    job_answer_release(answer);
    if (!request->deleted)
        (void)jobs_delete(services->jobs, request->job_id, request->tenant, now_ns(), &view,
                          &fault);
    end(request, code == GEMMD_OK ? job_state_name(view.state) : fault.detail);
}

static void submit_product(struct client_request *request)
{
    struct compute_call *call = &request->call;
    struct fault fault = {.detail = ""};
    if (compute_call_bind(call, services_of_io(request), &fault) != GEMMD_OK) {
        check_is_explained(request, &fault);
        close_call(request);
        end_failed(request, &fault);
        return;
    }
    if (request->job != NULL) {
        submit_job(request);
        return;
    }
    call->work.done = compute_done;
    call->work.queued_ns = now_ns();
    request->stage = STAGE_WORKING;
    request->due_ns =
        request->traits.is_watched && call->deadline_ns != 0 ? call->deadline_ns : UINT64_MAX;
    if (request->traits.leaves_ns != 0 && request->traits.leaves_ns < request->due_ns)
        request->due_ns = request->traits.leaves_ns;
    compute_call_push(call);
}

/* The deadline has passed, or the client has left: takes the work back, or has it stopped. */
static void give_up(struct client_request *request)
{
    struct compute_call *call = &request->call;
    request->due_ns = UINT64_MAX;
    request->stage = STAGE_GIVEN_UP;
    if (!compute_call_cancel(call))
        return; /* the end of the work will wake the thread */
    close_call(request);
    request->totals->left++;
    end(request, "given up in the queue");
}

static void answer_product(struct client_request *request)
{
    struct compute_call *call = &request->call;
    const struct work *work = &call->work;
    const bool given_up = request->stage == STAGE_GIVEN_UP;
    compute_call_finish(call, services_of_io(request));
    if (work->status == GEMMD_OK && work->deadline_ns != 0 && work->done_ns > work->deadline_ns)
        fail("request %" PRIu64 " is answered after its deadline", request->number);
    if (work->status != GEMMD_OK || given_up) {
        const struct fault fault = work->fault;
        const bool failed = work->status != GEMMD_OK;
        close_call(request);
        if (given_up || !failed) {
            request->totals->left++;
            end(request, "given up while the device computed");
        } else {
            end_failed(request, &fault);
        }
        return;
    }
    check_answer(request, call->result + call->header_bytes, call->result_bytes);
    request->totals->divided += call->devices > 0;
    request->stage = STAGE_SENDING;
    request->due_ns = now_ns() + request->traits.send_ns;
}

/* ---- tensors, as in tensor_put.c ---- */

static void put_done(struct work *work)
{
    struct client_request *request = OWNER_OF(work, struct client_request, work);
    if (++request->ends != 1)
        fail("upload %" PRIu64 " ends twice", request->number);
    inbox_post(&request->io->inbox, &request->wake);
}

static void close_put(struct client_request *request)
{
    tensor_store_release(services_of_io(request)->tensors, request->resident);
    pool_free(request->io->memory, request->block, request->body_bytes);
    admission_give(&request->reservation);
}

static void push_copy(struct client_request *request, const struct work_copy *copies,
                      uint32_t count, uint32_t device)
{
    request->ends = 0;
    request->work = (struct work){.copy_count = count,
                                  .tenant = request->traits.tenant,
                                  .priority = request->traits.priority,
                                  .bytes = request->body_bytes,
                                  .queued_ns = now_ns(),
                                  .done = put_done};
    memcpy(request->work.copies, copies, count * sizeof *copies);
    request->stage = STAGE_WORKING;
    request->due_ns = UINT64_MAX;
    queue_push(services_of_io(request)->executors.list[device].queue, &request->work);
}

static void begin_put(struct client_request *request)
{
    struct services *services = services_of_io(request);
    struct fault fault = {.detail = ""};
    struct tensor tensor;
    const uint64_t dims[2] = {RESIDENT_K, RESIDENT_N};
    (void)tensor_init(&tensor, GEMMD_F32, dims, 2, NULL);
    const struct tensor_offer offer = {.name = request->name,
                                       .tenant = request->tenant,
                                       .evictable = request->number % 2 == 0,
                                       .tensor = &tensor,
                                       .device = TENSOR_ANY_DEVICE};
    enum gemmd_error code = executors_admit(&services->executors, request->traits.tenant,
                                            request->body_bytes, &request->reservation, &fault);
    if (code == GEMMD_OK) {
        request->block = pool_alloc(request->io->memory, request->body_bytes, &fault);
        code = request->block != NULL ? GEMMD_OK : GEMMD_ERR_OUT_OF_MEMORY;
    }
    if (code == GEMMD_OK)
        code = tensor_store_reserve(services->tensors, &offer, &request->resident, &fault);
    if (code != GEMMD_OK) {
        close_put(request);
        end_failed(request, &fault);
        return;
    }
    memcpy(request->block, request->body, request->body_bytes);
    struct work_copy copies[RESIDENT_COPIES];
    const uint32_t count = resident_copies_in(request->resident, request->block, NULL, copies);
    push_copy(request, copies, count, resident_device(request->resident));
}

/* Copies the tensor to the next device that has room. False: no device is left. */
static bool replicate(struct client_request *request)
{
    struct services *services = services_of_io(request);
    struct fault no_room;
    while (request->traits.replicates && request->next_device < services->executors.count) {
        const uint32_t device = request->next_device++;
        if (resident_is_on(request->resident, device) ||
            tensor_store_reserve_copy(services->tensors, request->resident, device, &request->copy,
                                      &no_room) != GEMMD_OK)
            continue;
        struct work_copy copies[RESIDENT_COPIES];
        const uint32_t count = resident_copies_between(request->resident, request->copy, copies);
        push_copy(request, copies, count, device);
        return true;
    }
    return false;
}

static void answer_put(struct client_request *request)
{
    static const struct tensor_condition none;
    struct services *services = services_of_io(request);
    struct fault fault = request->work.fault;
    char etag[TENSOR_ETAG_SIZE];
    bool replaced;
    enum gemmd_error code = request->work.status;
    if (request->copy != NULL) {
        tensor_store_end_copy(services->tensors, request->resident, request->copy,
                              code == GEMMD_OK);
        request->copy = NULL;
        code = GEMMD_OK;
    } else if (code == GEMMD_OK) {
        etag_of(request->contents, etag);
        tensor_store_set_etag(services->tensors, request->resident, etag);
        code = tensor_store_publish(services->tensors, request->resident, &none, &replaced, &fault);
    }
    if (code == GEMMD_OK && replicate(request))
        return;
    close_put(request);
    if (code != GEMMD_OK) {
        end_failed(request, &fault);
        return;
    }
    request->totals->tensors++;
    end(request, "stored");
}

static void delete_tensor(struct client_request *request)
{
    static const struct tensor_condition none;
    struct fault fault = {.detail = ""};
    (void)tensor_store_remove(services_of_io(request)->tensors, request->name, request->tenant,
                              &none, &fault);
    end(request, "deleted");
}

/* ---- the I/O thread ---- */

static void receive(struct client_request *request)
{
    struct fault fault = {.detail = ""};
    uint64_t count = request->body_bytes - request->received_bytes;
    if (request->traits.leaves_ns != 0 && now_ns() >= request->traits.leaves_ns &&
        request->traits.kind == REQUEST_PRODUCT) {
        close_call(request);
        request->totals->left++;
        end(request, "left within the body");
        return;
    }
    if (count > request->traits.chunk_bytes)
        count = request->traits.chunk_bytes;
    const char *from = (const char *)request->body + request->received_bytes;
    if (compute_call_append(&request->call, services_of_io(request), from, count, &fault) !=
        GEMMD_OK)
        fail("request %" PRIu64 " has a body that does not fit: %s", request->number, fault.detail);
    request->received_bytes += count;
    request->due_ns = now_ns() + request->traits.pause_ns;
    if (request->received_bytes == request->body_bytes)
        submit_product(request);
}

static void advance(struct client_request *request)
{
    switch (request->stage) {
    case STAGE_RECEIVING:
        receive(request);
        return;
    case STAGE_WORKING:
        give_up(request);
        return;
    case STAGE_HASHING:
        answer_put(request);
        return;
    case STAGE_SENDING:
        close_call(request);
        request->totals->answered++;
        end(request, "answered");
        return;
    case STAGE_JOB:
        look_at_job(request);
        return;
    case STAGE_GIVEN_UP:
    case STAGE_OVER:
        return;
    }
}

uint64_t requests_advance(struct io_thread *io)
{
    uint64_t due_ns = UINT64_MAX;
    for (struct client_request **link = &io->requests; *link != NULL;) {
        struct client_request *request = *link;
        if (request->stage != STAGE_OVER && request->due_ns <= now_ns())
            advance(request);
        if (request->stage == STAGE_OVER) {
            *link = request->next;
            free(request->body);
            free(request->expected);
            free(request);
            continue;
        }
        if (request->due_ns < due_ns)
            due_ns = request->due_ns;
        link = &request->next;
    }
    return due_ns;
}

static void on_wake(struct inbox_message *message)
{
    struct client_request *request = OWNER_OF(message, struct client_request, wake);
    if (request->stage != STAGE_WORKING && request->stage != STAGE_GIVEN_UP)
        fail("request %" PRIu64 " is woken in stage %d", request->number, (int)request->stage);
    request->ends = 0;
    if (request->traits.kind != REQUEST_PUT) {
        answer_product(request);
    } else if (request->copy == NULL && request->traits.hash_ns > 0) {
        request->stage = STAGE_HASHING;
        request->due_ns = now_ns() + request->traits.hash_ns;
    } else {
        answer_put(request);
    }
}

static void on_arrival(struct inbox_message *message)
{
    struct client_request *request = OWNER_OF(message, struct client_request, arrival);
    request->next = request->io->requests;
    request->io->requests = request;
    request->due_ns = UINT64_MAX;
    switch (request->traits.kind) {
    case REQUEST_PUT:
        begin_put(request);
        return;
    case REQUEST_DELETE:
        delete_tensor(request);
        return;
    case REQUEST_PRODUCT:
    case REQUEST_JOB:
        begin_product(request);
        return;
    }
}

void request_send(struct daemon *daemon, const struct request_traits *traits, struct totals *totals)
{
    struct client_request *request = own_memory(sizeof *request);
    request->traits = *traits;
    request->io = &daemon->io[draw(daemon->traits.io_threads)];
    request->totals = totals;
    request->number = totals->sent++;
    request->contents = draw(1u << 30);
    request->sent_ns = now_ns();
    request->arrival.act = on_arrival;
    request->wake.act = on_wake;
    snprintf(request->tenant, sizeof request->tenant, "t%u", traits->owner);
    snprintf(request->name, sizeof request->name, "t%u-b%d", traits->owner,
             traits->b >= 0 ? (int)traits->b : 0);
    if (traits->kind != REQUEST_DELETE)
        write_body(request);
    daemon->active++;
    inbox_post(&request->io->inbox, &request->arrival);
}
