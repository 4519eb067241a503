#include "server/tensors/tensor_condition.h"

#include <stddef.h>
#include <string.h>

/* One entity tag of a list. `text` points into the list, and includes the quotes. */
struct entity_tag {
    const char *text;
    size_t length;
    bool weak;
};

enum next { NEXT_TAG, NEXT_END, NEXT_WRONG };

/* A list may have empty elements (RFC 9110, 5.6.1). */
static enum next next_tag(const char **at, struct entity_tag *tag)
{
    const char *p = *at + strspn(*at, " \t,");
    if (*p == '\0')
        return NEXT_END;
    tag->weak = strncmp(p, "W/", 2) == 0;
    p += tag->weak ? 2 : 0;
    if (*p != '"')
        return NEXT_WRONG;
    tag->text = p++;
    while (*p != '\0' && *p != '"' && (unsigned char)*p > ' ' && *p != 0x7f)
        p++;
    if (*p++ != '"')
        return NEXT_WRONG;
    tag->length = (size_t)(p - tag->text);
    p += strspn(p, " \t");
    *at = p;
    return *p == '\0' || *p == ',' ? NEXT_TAG : NEXT_WRONG;
}

static bool is_star(const char *list)
{
    list += strspn(list, " \t");
    return *list == '*' && list[1 + strspn(list + 1, " \t")] == '\0';
}

static bool is_list(const char *list)
{
    struct entity_tag tag;
    enum next next;
    bool any = false;
    if (list == NULL || is_star(list))
        return true;
    while ((next = next_tag(&list, &tag)) == NEXT_TAG)
        any = true;
    return any && next == NEXT_END;
}

enum gemmd_error tensor_condition_check(const struct tensor_condition *condition,
                                        struct fault *fault)
{
    const bool match = is_list(condition->if_match);
    if (match && is_list(condition->if_none_match))
        return GEMMD_OK;
    return fault_set(fault, GEMMD_ERR_MALFORMED, match ? "If-None-Match" : "If-Match",
                     "%s must be * or a list of entity tags, each in double quotes",
                     match ? "If-None-Match" : "If-Match");
}

/* Whether a list names the tensor's tag. The tags of tensors are strong, and a weak tag names one
 * of them only if the comparison may be weak. */
static bool list_names(const char *list, bool exists, const char *etag, bool weakly)
{
    struct entity_tag tag;
    if (!exists || is_star(list))
        return exists;
    if (etag == NULL)
        return false;
    while (next_tag(&list, &tag) == NEXT_TAG)
        if ((weakly || !tag.weak) && tag.length == strlen(etag) &&
            memcmp(tag.text, etag, tag.length) == 0)
            return true;
    return false;
}

enum tensor_condition_result tensor_condition_evaluate(const struct tensor_condition *condition,
                                                       bool exists, const char *etag)
{
    if (condition->if_match != NULL && !list_names(condition->if_match, exists, etag, false))
        return TENSOR_CONDITION_OTHER;
    if (condition->if_none_match != NULL &&
        list_names(condition->if_none_match, exists, etag, true))
        return TENSOR_CONDITION_SAME;
    return TENSOR_CONDITION_HOLDS;
}

enum gemmd_error tensor_condition_require(const struct tensor_condition *condition, bool exists,
                                          const char *etag, struct fault *fault)
{
    switch (tensor_condition_evaluate(condition, exists, etag)) {
    case TENSOR_CONDITION_HOLDS:
        return GEMMD_OK;
    case TENSOR_CONDITION_OTHER:
        return fault_set(fault, GEMMD_ERR_PRECONDITION, "If-Match", "%s",
                         exists ? "If-Match does not name the tensor's entity tag"
                                : "there is no tensor of that name, which If-Match requires");
    case TENSOR_CONDITION_SAME:
        break;
    }
    return fault_set(fault, GEMMD_ERR_PRECONDITION, "If-None-Match",
                     "there is a tensor of that name already, which If-None-Match forbids");
}
