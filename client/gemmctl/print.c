#include "client/gemmctl/print.h"

#include <stdio.h>

void print_json(json_t *root)
{
    if (root != NULL && json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0)
        putchar('\n');
    json_decref(root);
}
