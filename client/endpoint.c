#include "client/endpoint.h"

#include <curl/curl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "client/failure.h"

static const char forms[] = "it must be http://HOST:PORT, https://HOST:PORT or unix:PATH";

static enum gemmd_error out_of_memory(struct gemmd_error_info *error)
{
    return failure_set(error, GEMMD_ERR_OUT_OF_MEMORY, NULL, "there is no memory for a client");
}

static enum gemmd_error parse_unix(struct endpoint *endpoint, const char *path,
                                   struct gemmd_error_info *error)
{
    size_t room = sizeof(((struct sockaddr_un *)NULL)->sun_path);
    if (path[0] == '\0' || strlen(path) >= room)
        return failure_set(error, GEMMD_ERR_USAGE, "url",
                           "the path of a Unix socket has 1 to %zu bytes; '%.128s' has %zu",
                           room - 1, path, strlen(path));
    endpoint->base = strdup("http://localhost");
    endpoint->unix_path = strdup(path);
    if (endpoint->base == NULL || endpoint->unix_path == NULL)
        return out_of_memory(error);
    return GEMMD_OK;
}

static bool has_part(CURLU *parts, CURLUPart part)
{
    char *text = NULL;
    bool found = curl_url_get(parts, part, &text, 0) == CURLUE_OK;
    curl_free(text);
    return found;
}

static bool has_scheme(CURLU *parts, const char *scheme)
{
    char *text = NULL;
    bool same =
        curl_url_get(parts, CURLUPART_SCHEME, &text, 0) == CURLUE_OK && strcmp(text, scheme) == 0;
    curl_free(text);
    return same;
}

/* The whole URL without a slash at its end, new; NULL if there is no memory. */
static char *base_of(CURLU *parts)
{
    char *text = NULL, *base = NULL;
    if (curl_url_get(parts, CURLUPART_URL, &text, 0) == CURLUE_OK)
        base = strdup(text);
    curl_free(text);
    for (size_t n = base != NULL ? strlen(base) : 0; n > 0 && base[n - 1] == '/'; n--)
        base[n - 1] = '\0';
    return base;
}

static enum gemmd_error parse_http(struct endpoint *endpoint, const char *url,
                                   struct gemmd_error_info *error)
{
    enum gemmd_error code = GEMMD_OK;
    CURLU *parts = curl_url();
    CURLUcode parsed =
        parts != NULL ? curl_url_set(parts, CURLUPART_URL, url, 0) : CURLUE_OUT_OF_MEMORY;
    if (parsed == CURLUE_OUT_OF_MEMORY)
        code = out_of_memory(error);
    else if (parsed != CURLUE_OK || (!has_scheme(parts, "http") && !has_scheme(parts, "https")))
        code = failure_set(error, GEMMD_ERR_USAGE, "url", "'%.128s' is not the URL of a daemon; %s",
                           url, forms);
    else if (has_part(parts, CURLUPART_USER) || has_part(parts, CURLUPART_QUERY) ||
             has_part(parts, CURLUPART_FRAGMENT))
        code = failure_set(error, GEMMD_ERR_USAGE, "url",
                           "a daemon's URL has no user, query or fragment; %s", forms);
    else if ((endpoint->base = base_of(parts)) == NULL)
        code = out_of_memory(error);
    curl_url_cleanup(parts);
    return code;
}

enum gemmd_error endpoint_parse(struct endpoint *endpoint, const char *url,
                                struct gemmd_error_info *error)
{
    *endpoint = (struct endpoint){0};
    if (strlen(url) > ENDPOINT_URL_MAX)
        return failure_set(error, GEMMD_ERR_USAGE, "url",
                           "the daemon's URL is longer than %d bytes", ENDPOINT_URL_MAX);
    endpoint->name = strdup(url);
    if (endpoint->name == NULL)
        return out_of_memory(error);
    if (strncmp(url, "unix:", 5) == 0)
        return parse_unix(endpoint, url + 5, error);
    return parse_http(endpoint, url, error);
}

void endpoint_free(struct endpoint *endpoint)
{
    free(endpoint->name);
    free(endpoint->base);
    free(endpoint->unix_path);
}
