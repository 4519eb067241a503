#include "client/gemmctl/print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/gemmctl/terminal.h"
#include "proto/utf8.h"

void print_json(json_t *root)
{
    char *text = root != NULL ? json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) : NULL;
    uint32_t length;
    for (const char *at = text; at != NULL && *at != '\0'; at += length) {
        const int code = terminal_control(at, &length);
        if (code >= 0 && code != '\n')
            printf("\\u%04x", (unsigned)code);
        else
            (void)fwrite(at, 1, length, stdout);
    }
    if (text != NULL)
        putchar('\n');
    free(text);
    json_decref(root);
}

json_t *print_text(const char *text)
{
    static const char replacement[] = "\xef\xbf\xbd";
    if (text == NULL)
        return json_null();
    if (utf8_is_text(text))
        return json_string(text);
    const size_t bytes = strlen(text);
    char *copy = malloc((sizeof replacement - 1) * bytes + 1), *end = copy;
    if (copy == NULL)
        return NULL;
    for (size_t at = 0; at < bytes;) {
        const uint32_t length = utf8_length(text + at, bytes - at);
        const char *from = length == 0 ? replacement : text + at;
        const size_t taken = length == 0 ? sizeof replacement - 1 : length;
        memcpy(end, from, taken);
        end += taken;
        at += length == 0 ? 1 : length;
    }
    *end = '\0';
    json_t *string = json_string(copy);
    free(copy);
    return string;
}
