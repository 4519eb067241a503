#include "proto/operands.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "proto/dtype.h"
#include "proto/gemm_request.h"
#include "proto/npy.h"
#include "proto/safetensors.h"
#include "proto/size.h"

bool operand_is_there(const struct tensor *tensor)
{
    return tensor->rank > 0;
}

bool operand_shapes(const struct operand_table *table, const void *request, struct tensor *tensors)
{
    for (uint32_t i = 0; i < table->count; i++) {
        tensors[i] = (struct tensor){.rank = 0};
        if (table->is_wanted(request, i) && !table->shape(request, i, &tensors[i]))
            return false;
    }
    return true;
}

/* Computes the offsets of the operands that the body holds, and the length of the body. False if
 * the length overflows. */
static bool assign_offsets(struct operand_layout *layout)
{
    layout->bytes = 0;
    layout->in_body = 0;
    for (uint32_t i = 0; i < layout->count; i++) {
        layout->offsets[i] = layout->bytes;
        if (layout->tensors[i].rank == 0 || (layout->elsewhere & 1u << i) != 0)
            continue;
        layout->in_body |= 1u << i;
        if (!size_add(layout->bytes, layout->tensors[i].bytes, &layout->bytes))
            return false;
    }
    return true;
}

bool operand_layout_compute(struct operand_layout *layout, const struct operand_table *table,
                            const void *request, uint32_t elsewhere)
{
    layout->count = table->count;
    layout->elsewhere = elsewhere;
    return operand_shapes(table, request, layout->tensors) && assign_offsets(layout);
}

enum gemmd_error operand_layout_settle(struct operand_layout *layout,
                                       const struct operand_table *table, const void *request,
                                       uint32_t elsewhere, struct fault *fault)
{
    if (operand_layout_compute(layout, table, request, elsewhere))
        return GEMMD_OK;
    return fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL,
                     "the size of these operands does not fit in 64 bits");
}

void operand_layout_leave_out(struct operand_layout *layout, uint32_t operand)
{
    layout->elsewhere |= 1u << operand;
    (void)assign_offsets(layout); /* cannot overflow: the length becomes smaller */
}

void operand_guess_add(struct operand_guess *guess, const char *format, ...)
{
    char text[sizeof guess->text];
    const size_t length = strlen(guess->text), room = sizeof guess->text - length;
    va_list arguments;
    va_start(arguments, format);
    const int wanted = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (wanted < 0 || (size_t)wanted >= sizeof text || (size_t)wanted + 6 > room)
        return;
    snprintf(guess->text + length, room, "%s%s", length > 0 ? ", or " : "", text);
}

void operand_guess_dtypes(struct operand_guess *guess, enum gemmd_dtype than,
                          bool (*fits)(void *context, enum gemmd_dtype dtype), void *context)
{
    char names[64] = "";
    size_t length = 0;
    for (unsigned i = 0; i < GEMMD_DTYPE_COUNT && length < sizeof names; i++)
        if (i != than && fits(context, (enum gemmd_dtype)i))
            length += (size_t)snprintf(names + length, sizeof names - length, "%s%s",
                                       length > 0 ? " or " : "", dtype_name((enum gemmd_dtype)i));
    if (length > 0)
        operand_guess_add(guess, "are the operands %s (dtype)", names);
}

/* Adds the operands without which the body would have the length that it has. */
static void guess_missing(const struct operand_layout *layout, const struct operand_table *table,
                          uint64_t bytes, struct operand_guess *guess)
{
    char titles[64] = "";
    size_t length = 0;
    for (uint32_t i = 0; i < layout->count && length < sizeof titles; i++)
        if ((layout->in_body & 1u << i) != 0 && bytes > 0 &&
            bytes == layout->bytes - layout->tensors[i].bytes)
            length += (size_t)snprintf(titles + length, sizeof titles - length, "%s%s",
                                       length > 0 ? " or " : "", table->operands[i].title);
    if (length > 0)
        operand_guess_add(guess, "is %s missing", titles);
}

enum gemmd_error operand_layout_check(const struct operand_layout *layout,
                                      const struct operand_table *table, const void *request,
                                      uint64_t bytes, struct fault *fault)
{
    char sizes[256];
    struct operand_guess guess = {.text = ""};
    if (bytes == layout->bytes)
        return GEMMD_OK;
    table->describe(request, sizes, sizeof sizes);
    table->guess(request, layout->elsewhere, bytes, &guess);
    guess_missing(layout, table, bytes, &guess);
    return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                     "the body is %" PRIu64 " bytes; %s take %" PRIu64 "%s%s%s", bytes, sizes,
                     layout->bytes, guess.text[0] != '\0' ? "; " : "", guess.text,
                     guess.text[0] != '\0' ? "?" : "");
}

enum gemmd_error operand_layout_bind(const struct operand_layout *layout,
                                     const struct operand_table *table, const void *request,
                                     const void *body, uint64_t bytes, struct tensor *tensors,
                                     struct fault *fault)
{
    enum gemmd_error code = operand_layout_check(layout, table, request, bytes, fault);
    for (uint32_t i = 0; i < layout->count && code == GEMMD_OK; i++) {
        tensors[i] = layout->tensors[i];
        if ((layout->in_body & 1u << i) != 0)
            tensors[i].data = (const unsigned char *)body + layout->offsets[i];
    }
    return code;
}

enum gemmd_error operand_read_npy(const struct operand_table *table, uint32_t operand,
                                  struct npy_before *before, struct body_front *front, uint64_t *at,
                                  enum gemmd_dtype carrier, struct tensor *tensor,
                                  struct fault *fault)
{
    const char *title = table->operands[operand].title;
    struct fault reason = {0};
    enum gemmd_error code = npy_decode_front(front, at, carrier, tensor, &reason);
    if (code == GEMMD_ERR_CONFLICT)
        return code;
    const uint64_t missing =
        code == GEMMD_OK || before->title == NULL ? 0 : npy_overlap(front, before->data_at, *at);
    if (missing > 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "%s: the .npy array lacks %" PRIu64
                         " bytes of its shape: that of %s starts "
                         "too early",
                         before->title, missing, title);
    if (code != GEMMD_OK)
        return fault_set(fault, code, reason.field, "%s: %s", title, reason.detail);
    if (!operand_is_there(tensor))
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL, "%s%s", title, table->npy_scalar);
    *before = (struct npy_before){.title = title, .data_at = *at - tensor->bytes};
    return GEMMD_OK;
}

static enum gemmd_error claim_tensor(const struct operand_table *table,
                                     const struct safetensors_entry *entry, struct tensor *tensors,
                                     struct fault *fault)
{
    uint32_t i = 0;
    while (i < table->count && strcmp(entry->name, table->operands[i].name) != 0)
        i++;
    if (i == table->count)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "safetensors: there is a tensor '%s'; those of %s are %s", entry->name,
                         table->path, table->names);
    if (!operand_is_there(&entry->tensor))
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL, "safetensors: '%s'%s", entry->name,
                         table->named_scalar);
    tensors[i] = entry->tensor;
    return GEMMD_OK;
}

enum gemmd_error operand_read_safetensors(const struct operand_table *table,
                                          struct body_front *front, struct tensor *tensors,
                                          struct fault *fault)
{
    struct safetensors_entry entries[OPERAND_TABLE_MAX];
    uint32_t count = 0;
    enum gemmd_error code = safetensors_decode_front(front, entries, table->count, &count, fault);
    for (uint32_t i = 0; i < count && code == GEMMD_OK; i++)
        code = claim_tensor(table, &entries[i], tensors, fault);
    return code;
}

static enum gemmd_error bind_npy_front(const struct operand_table *table, const void *request,
                                       struct body_front *front, enum gemmd_dtype carrier,
                                       struct tensor *tensors, struct fault *fault)
{
    struct npy_before before = {.title = NULL};
    uint64_t at = 0;
    for (uint32_t i = 0; i < table->count; i++) {
        if (!table->is_wanted(request, i))
            continue;
        if (at == front->length)
            return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                             "the body ends before the .npy array of %s", table->operands[i].title);
        const enum gemmd_error code =
            operand_read_npy(table, i, &before, front, &at, carrier, &tensors[i], fault);
        if (code != GEMMD_OK)
            return code;
    }
    if (at < front->length)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "the body is %" PRIu64 " bytes; its .npy arrays take %" PRIu64 "%s",
                         front->length, at, table->npy_more);
    return GEMMD_OK;
}

enum gemmd_error operand_bind_front(const struct operand_table *table, const void *request,
                                    uint32_t elsewhere, enum format format,
                                    struct body_front *front, enum gemmd_dtype carrier,
                                    struct tensor *tensors, struct fault *fault)
{
    struct operand_layout layout;
    for (uint32_t i = 0; i < table->count; i++)
        tensors[i] = (struct tensor){.rank = 0};
    if (format == FORMAT_NPY)
        return bind_npy_front(table, request, front, carrier, tensors, fault);
    if (format == FORMAT_SAFETENSORS)
        return operand_read_safetensors(table, front, tensors, fault);
    const enum gemmd_error code = operand_layout_settle(&layout, table, request, elsewhere, fault);
    return code == GEMMD_OK ? operand_layout_bind(&layout, table, request, front->bytes,
                                                  front->length, tensors, fault)
                            : code;
}

uint32_t operand_mismatch(const struct operand_table *table, const void *request,
                          const struct tensor *tensors)
{
    uint32_t i = 0;
    while (i < table->count && operand_is_there(&tensors[i]) == table->is_wanted(request, i))
        i++;
    return i;
}

enum gemmd_error operand_check_named(const struct operand_table *table, const void *request,
                                     const struct tensor *tensors, struct fault *fault)
{
    const uint32_t i = operand_mismatch(table, request, tensors);
    if (i == table->count)
        return GEMMD_OK;
    return fault_set(fault, GEMMD_ERR_MALFORMED, table->operands[i].field,
                     operand_is_there(&tensors[i])
                         ? "safetensors: the parameters say that there is no tensor '%s'"
                         : "safetensors: the tensor '%s' is missing",
                     table->operands[i].name);
}

enum gemmd_error operand_settle_size(const char *name, uint64_t *size, uint64_t value,
                                     const char *title, const char *source, struct fault *fault)
{
    if (value < 1 || value > GEMM_DIM_MAX)
        return fault_set(fault, GEMMD_ERR_MALFORMED, name,
                         "%s is %" PRIu64 " by the shape of %s; it must be from 1 to %d", name,
                         value, title, GEMM_DIM_MAX);
    if (*size == 0)
        *size = value;
    if (*size != value)
        return fault_set(fault, GEMMD_ERR_MALFORMED, name,
                         "%s is %" PRIu64 " by the shape of %s and %" PRIu64 " by %s", name, value,
                         title, *size, source);
    return GEMMD_OK;
}
