/*
 * other_parser - makes libmicrohttpd look like another version to a program. To be preloaded
 * (LD_PRELOAD).
 *
 * OTHER_VERSION is the version that libmicrohttpd gives itself. If OTHER_LAYOUT is set, names and
 * values of headers lie in memory of their own, and not where the request was received.
 */
#include <dlfcn.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

const char *MHD_get_version(void)
{
    return getenv("OTHER_VERSION");
}

struct visit {
    MHD_KeyValueIteratorN take;
    void *context;
};

/* A copy of exactly the text and its end, so that AddressSanitizer notices a read behind it. */
static char *copy_of(const char *text, size_t bytes)
{
    char *copy = malloc(bytes + 1);
    if (copy == NULL)
        abort();
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    return copy;
}

static enum MHD_Result take_copy(void *cls, enum MHD_ValueKind kind, const char *name,
                                 size_t name_bytes, const char *value, size_t value_bytes)
{
    const struct visit *visit = cls;
    char *own_name = copy_of(name, name_bytes);
    char *own_value = value == NULL ? NULL : copy_of(value, value_bytes);
    const enum MHD_Result result =
        visit->take(visit->context, kind, own_name, name_bytes, own_value, value_bytes);
    /* The program may keep pointers until the request ends, so the copies stay. */
    return result;
}

int MHD_get_connection_values_n(struct MHD_Connection *mhd, enum MHD_ValueKind kind,
                                MHD_KeyValueIteratorN take, void *context)
{
    static int (*next)(struct MHD_Connection *, enum MHD_ValueKind, MHD_KeyValueIteratorN, void *);
    struct visit visit = {take, context};
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "MHD_get_connection_values_n");
    if (getenv("OTHER_LAYOUT") == NULL || kind != MHD_HEADER_KIND)
        return next(mhd, kind, take, context);
    return next(mhd, kind, take_copy, &visit);
}
