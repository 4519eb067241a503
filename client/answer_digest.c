#include "client/answer_digest.h"

#include <string.h>

#include "client/failure.h"
#include "client/transfer.h"

void answer_digest_begin(struct answer_digest *digest)
{
    sha256_init(&digest->hash);
    digest->bytes = 0;
}

void answer_digest_add(struct answer_digest *digest, const void *data, size_t bytes)
{
    sha256_update(&digest->hash, bytes, data);
    digest->bytes += bytes;
}

enum gemmd_error answer_digest_check(struct transfer *transfer)
{
    struct gemmd_request *request = transfer->request;
    unsigned char found[SHA256_DIGEST_SIZE];
    if (!request->client->options.check_digests || transfer->digest.bytes == 0)
        return GEMMD_OK;
    if (!transfer->answer.has_digest)
        return failure_set(&request->error, GEMMD_ERR_PROTOCOL, NULL,
                           "the answer has no Content-Digest; daemons before 0.2 send none");
    sha256_digest(&transfer->digest.hash, sizeof found, found);
    if (memcmp(found, transfer->answer.digest, sizeof found) != 0)
        return failure_set(&request->error, GEMMD_ERR_CONNECTION, NULL,
                           "the answer was changed on its way: it has not the digest that the "
                           "daemon sent with it");
    return GEMMD_OK;
}
