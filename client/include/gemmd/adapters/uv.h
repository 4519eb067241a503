/*
 * uv.h - a client's requests in a libuv loop.
 *
 *     struct gemmd_uv adapter;
 *     gemmd_uv_attach(&adapter, client, uv_default_loop());
 *     struct gemmd_request *request = gemmd_gemm_submit(client, &gemm, &error);
 *     gemmd_on_done(request, on_done);    // takes the result, releases the request
 *     uv_run(uv_default_loop(), UV_RUN_DEFAULT);
 *
 * The client belongs to the loop's thread from then on, and its requests move forward in the loop:
 * nothing waits. The adapter keeps the loop running until it is detached, or unreferenced with
 * uv_unref((uv_handle_t *)&adapter.poll).
 *
 * All of it is in this header: a program that includes it links libuv, others do not need it.
 */
#ifndef GEMMD_ADAPTERS_UV_H
#define GEMMD_ADAPTERS_UV_H

#include <gemmd/gemmd.h>
#include <uv.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Allocated by the caller; stays where it is until `closed` was called. */
struct gemmd_uv {
    uv_poll_t poll;
    struct gemmd_client *client;              /* borrowed */
    void (*closed)(struct gemmd_uv *adapter); /* may be NULL */
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

/* 0, or libuv's error: then nothing is attached. */
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

/* The client is the caller's again at once; the adapter when `closed`, which may be NULL, is called
 * from the loop. */
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
