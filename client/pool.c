#include "client/pool.h"

#include <stdlib.h>

#include "client/callbacks.h"

/* The buffers of a transfer for large bodies, of the largest sizes that libcurl takes. With
 * libcurl's default buffers (64 KiB for sending, 16 KiB for receiving) large bodies on a fast link
 * are slower by a third to a half. */
#define BULK_UPLOAD_BUFFER (2L * 1024 * 1024)
#define BULK_DOWNLOAD_BUFFER (512L * 1024)

/* The receive buffer of a transfer for small bodies, large enough for a whole small answer. */
#define SMALL_DOWNLOAD_BUFFER (64L * 1024)

static void transfer_free(struct transfer *transfer)
{
    curl_easy_cleanup(transfer->easy);
    free(transfer->joined);
    free(transfer);
}

#define SET(option, value) (curl_easy_setopt(easy, option, value) == CURLE_OK)

/* Sets the options that stay the same for the life of a handle. */
static bool set_lasting_options(struct transfer *transfer, struct gemmd_client *client)
{
    CURL *easy = transfer->easy;
    const struct address *address = &client->address;
    bool done = SET(CURLOPT_NOSIGNAL, 1L) && SET(CURLOPT_PRIVATE, transfer) &&
                SET(CURLOPT_ERRORBUFFER, transfer->curl_error) &&
                SET(CURLOPT_USERAGENT, "libgemmd/" GEMMD_VERSION) &&
                SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) &&
                SET(CURLOPT_PATH_AS_IS, 1L) && SET(CURLOPT_TCP_NODELAY, 1L) &&
                SET(CURLOPT_TCP_KEEPALIVE, 1L) &&
                SET(CURLOPT_CONNECTTIMEOUT_MS, (long)client->options.connect_timeout_ms) &&
                SET(CURLOPT_OPENSOCKETFUNCTION, loop_open_socket) &&
                SET(CURLOPT_OPENSOCKETDATA, &client->loop) &&
                SET(CURLOPT_CLOSESOCKETFUNCTION, loop_close_socket) &&
                SET(CURLOPT_CLOSESOCKETDATA, &client->loop) &&
                SET(CURLOPT_READFUNCTION, callback_read) && SET(CURLOPT_READDATA, transfer) &&
                SET(CURLOPT_SEEKFUNCTION, callback_seek) && SET(CURLOPT_SEEKDATA, transfer) &&
                SET(CURLOPT_HEADERFUNCTION, callback_header) && SET(CURLOPT_HEADERDATA, transfer) &&
                SET(CURLOPT_WRITEFUNCTION, callback_write) && SET(CURLOPT_WRITEDATA, transfer);
    if (done && address->unix_path != NULL)
        done = SET(CURLOPT_UNIX_SOCKET_PATH, address->unix_path) && SET(CURLOPT_PROXY, "");
    if (done && client->ca_file != NULL)
        done = SET(CURLOPT_CAINFO, client->ca_file);
    if (done && client->cert_file != NULL)
        done = SET(CURLOPT_SSLCERT, client->cert_file) &&
               SET(CURLOPT_SSLKEY, client->key_file != NULL ? client->key_file : client->cert_file);
    if (done && transfer->bulk)
        done = SET(CURLOPT_UPLOAD_BUFFERSIZE, BULK_UPLOAD_BUFFER);
    return done &&
           SET(CURLOPT_BUFFERSIZE, transfer->bulk ? BULK_DOWNLOAD_BUFFER : SMALL_DOWNLOAD_BUFFER);
}

static struct transfer *transfer_new(struct gemmd_client *client, bool bulk)
{
    struct transfer *transfer = calloc(1, sizeof *transfer);
    if (transfer == NULL)
        return NULL;
    transfer->bulk = bulk;
    transfer->easy = curl_easy_init();
    if (transfer->easy == NULL || !set_lasting_options(transfer, client)) {
        transfer_free(transfer);
        return NULL;
    }
    return transfer;
}

struct transfer *pool_take(struct gemmd_client *client, bool bulk)
{
    struct idle_transfers *idle = &client->idle[bulk];
    struct transfer *transfer = idle->first;
    if (transfer == NULL)
        return transfer_new(client, bulk);
    idle->first = transfer->next;
    idle->count--;
    return transfer;
}

void pool_give(struct gemmd_client *client, struct transfer *transfer)
{
    struct idle_transfers *idle = &client->idle[transfer->bulk];
    transfer->request = NULL;
    if (idle->count == (transfer->bulk ? POOL_BULK_MAX : POOL_SMALL_MAX)) {
        transfer_free(transfer);
        return;
    }
    transfer->next = idle->first;
    idle->first = transfer;
    idle->count++;
}

void pool_free(struct gemmd_client *client)
{
    for (int bulk = 0; bulk < 2; bulk++)
        while (client->idle[bulk].count > 0)
            transfer_free(pool_take(client, bulk));
}
