#include "client/gemmctl/print_table.h"

#include <stdio.h>

int print_table(const struct context *context, const struct table *table, const char *empty)
{
    struct fault fault = {0};
    if (!table_print(table, context->terminal.out_color, stdout)) {
        fault_set(&fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "there is no memory for the table");
        return fail_fault(context, &fault);
    }
    if (table->rows == 0 && !option_flag(context->arguments, OPTION_QUIET))
        fprintf(stderr, "%s\n", empty);
    return EXIT_OK;
}
