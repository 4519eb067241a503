#include "client/address.h"

#include <curl/curl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "client/failure.h"

static const char forms[] =
    "it must be http://HOST:PORT, https://HOST:PORT, HOST:PORT or unix:PATH";

static const char brackets[] = ", and an IPv6 address is in brackets, as in [::1]:8080";

static enum gemmd_error out_of_memory(struct gemmd_error_info *error)
{
    return failure_set(error, GEMMD_ERR_OUT_OF_MEMORY, NULL, "there is no memory for a client");
}

static enum gemmd_error parse_unix(struct address *address, const char *path,
                                   struct gemmd_error_info *error)
{
    size_t room = sizeof(((struct sockaddr_un *)NULL)->sun_path);
    if (path[0] == '\0' || strlen(path) >= room)
        return failure_set(error, GEMMD_ERR_USAGE, "url",
                           "the path of a Unix socket has 1 to %zu bytes; '%.128s' has %zu",
                           room - 1, path, strlen(path));
    address->base = strdup("http://localhost");
    address->unix_path = strdup(path);
    if (address->base == NULL || address->unix_path == NULL)
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

/* Returns the whole URL without a slash at its end, as a new string that the caller frees; NULL if
 * there is no memory. */
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

static enum gemmd_error parse_http(struct address *address, const char *url,
                                   struct gemmd_error_info *error)
{
    enum gemmd_error code = GEMMD_OK;
    CURLU *parts = curl_url();
    CURLUcode parsed =
        parts != NULL ? curl_url_set(parts, CURLUPART_URL, url, 0) : CURLUE_OUT_OF_MEMORY;
    if (parsed == CURLUE_OUT_OF_MEMORY)
        code = out_of_memory(error);
    else if (parsed != CURLUE_OK || (!has_scheme(parts, "http") && !has_scheme(parts, "https")))
        code =
            failure_set(error, GEMMD_ERR_USAGE, "url", "'%.96s' is not the URL of a daemon; %s%s",
                        url, forms, strstr(url, "::") != NULL ? brackets : "");
    else if (has_part(parts, CURLUPART_USER) || has_part(parts, CURLUPART_QUERY) ||
             has_part(parts, CURLUPART_FRAGMENT))
        code = failure_set(error, GEMMD_ERR_USAGE, "url",
                           "a daemon's URL has no user, query or fragment; %s", forms);
    else if ((address->base = base_of(parts)) == NULL)
        code = out_of_memory(error);
    curl_url_cleanup(parts);
    return code;
}

/* Whether the text is "HOST:PORT", also with a path behind it. An IPv6 address is in brackets. */
static bool is_host_and_port(const char *text)
{
    const char *host_end = text + (*text == '[' ? strcspn(text, "]/") : strcspn(text, ":/"));
    host_end += *host_end == ']';
    if (host_end == text || *host_end != ':')
        return false;
    const size_t digits = strspn(host_end + 1, "0123456789");
    return digits > 0 && (host_end[1 + digits] == '\0' || host_end[1 + digits] == '/');
}

enum gemmd_error address_parse(struct address *address, const char *url,
                               struct gemmd_error_info *error)
{
    *address = (struct address){0};
    if (strlen(url) > ADDRESS_URL_MAX)
        return failure_set(error, GEMMD_ERR_USAGE, "url",
                           "the daemon's URL is longer than %d bytes", ADDRESS_URL_MAX);
    address->name = strdup(url);
    if (address->name == NULL)
        return out_of_memory(error);
    if (strncmp(url, "unix:", 5) == 0)
        return parse_unix(address, url + 5, error);
    if (!is_host_and_port(url))
        return parse_http(address, url, error);
    char whole[sizeof "http://" + ADDRESS_URL_MAX];
    snprintf(whole, sizeof whole, "http://%s", url);
    return parse_http(address, whole, error);
}

void address_free(struct address *address)
{
    free(address->name);
    free(address->base);
    free(address->unix_path);
}
