#include "client/endpoint.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "client/failure.h"

static const char forms[] = "it must be http://HOST:PORT, https://HOST:PORT or unix:PATH";

static enum gemmd_error out_of_memory(struct gemmd_error_info *error)
{
    return failure_set(error, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the client");
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

static enum gemmd_error parse_http(struct endpoint *endpoint, const char *url,
                                   struct gemmd_error_info *error)
{
    enum gemmd_error code = GEMMD_OK;
    char *scheme = NULL, *text = NULL;
    CURLU *parts = curl_url();
    if (parts == NULL)
        return out_of_memory(error);
    CURLUcode parsed = curl_url_set(parts, CURLUPART_URL, url, 0);
    if (parsed == CURLUE_OUT_OF_MEMORY)
        code = out_of_memory(error);
    else if (parsed != CURLUE_OK ||
             curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK ||
             (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0))
        code = failure_set(error, GEMMD_ERR_USAGE, "url", "'%.128s' is no URL of a daemon; %s", url,
                           forms);
    else if (has_part(parts, CURLUPART_USER) || has_part(parts, CURLUPART_QUERY) ||
             has_part(parts, CURLUPART_FRAGMENT))
        code = failure_set(error, GEMMD_ERR_USAGE, "url",
                           "a daemon's URL has no user, query or fragment; %s", forms);
    else if (curl_url_get(parts, CURLUPART_URL, &text, 0) != CURLUE_OK ||
             (endpoint->base = strdup(text)) == NULL)
        code = out_of_memory(error);
    if (endpoint->base != NULL)
        for (size_t n = strlen(endpoint->base); n > 0 && endpoint->base[n - 1] == '/'; n--)
            endpoint->base[n - 1] = '\0';
    curl_free(text);
    curl_free(scheme);
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
