#include "client/gemmctl/print.h"

#include <stdio.h>
#include <stdlib.h>

#include "client/gemmctl/terminal.h"

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
