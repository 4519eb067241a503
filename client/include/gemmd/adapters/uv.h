/*
 * uv.h - moves a client's requests forward in a libuv loop.
 *
 *     struct gemmd_uv adapter;
 *     gemmd_uv_attach(&adapter, client, uv_default_loop());
 *     struct gemmd_request *request = gemmd_gemm_submit(client, &gemm, &error);
 *     gemmd_on_done(request, on_done);    // on_done takes the result and releases the request
 *     uv_run(uv_default_loop(), UV_RUN_DEFAULT);
 *
 * From gemmd_uv_attach() on, the client belongs to the loop's thread, and the client's requests
 * move forward in the loop without any function that waits. The adapter keeps the loop running
 * until the adapter is detached, or unreferenced with uv_unref((uv_handle_t *)&adapter.poll).
 *
 * In the child of a fork an attached adapter goes on with the child's own connections, if the child
 * calls gemmd_fd() with the client and uv_loop_fork() with the loop before the loop runs.
 *
 * The adapter consists of this header alone. A program that includes the header links libuv;
 * libgemmd itself does not need libuv.
 */
#ifndef GEMMD_ADAPTERS_UV_H
#define GEMMD_ADAPTERS_UV_H

#include <gemmd/gemmd.h>
#include <uv.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The adapter of one client. The caller allocates the structure, and keeps it in place until the
 * function `closed` of gemmd_uv_detach() has been called. */
struct gemmd_uv {
    uv_poll_t poll;
    struct gemmd_client *client;              /* borrowed */
    void (*closed)(struct gemmd_uv *adapter); /* set by gemmd_uv_detach(); may be NULL */
};

static inline void gemmd_uv_ready(uv_poll_t *poll, int status, int events)
{
    struct gemmd_uv *adapter = (struct gemmd_uv *)poll->data;
    (void)status;
    (void)events;
    gemmd_advance(adapter->client, 0);
}

static inline void gemmd_uv_closed(uv_handle_t *handle)
{
    struct gemmd_uv *adapter = (struct gemmd_uv *)handle->data;
    if (adapter->closed != NULL)
        adapter->closed(adapter);
}

/* Attaches a client to a loop. Returns 0, or an error of libuv, after which the client is not
 * attached. */
static inline int gemmd_uv_attach(struct gemmd_uv *adapter, struct gemmd_client *client,
                                  uv_loop_t *loop)
{
    int fd = gemmd_fd(client);
    if (fd < 0)
        return UV_ENOMEM;
    int error = uv_poll_init(loop, &adapter->poll, fd);
    if (error != 0)
        return error;
    adapter->poll.data = adapter;
    adapter->client = client;
    adapter->closed = NULL;
    error = uv_poll_start(&adapter->poll, UV_READABLE, gemmd_uv_ready);
    if (error != 0)
        uv_close((uv_handle_t *)&adapter->poll, NULL);
    return error;
}

/* Detaches the client, which any thread may use again from then on. The loop calls `closed` once
 * the adapter's memory may be released; `closed` may be NULL. */
static inline void gemmd_uv_detach(struct gemmd_uv *adapter,
                                   void (*closed)(struct gemmd_uv *adapter))
{
    adapter->closed = closed;
    uv_close((uv_handle_t *)&adapter->poll, gemmd_uv_closed);
}

#ifdef __cplusplus
}
#endif
#endif
