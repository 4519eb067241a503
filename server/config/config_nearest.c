/* config_nearest.c - finds the option that a mistyped name means ("did you mean"). */
#include "proto/nearest.h"
#include "server/config/config_option.h"

const char *config_option_nearest(const char *name, size_t length)
{
    struct nearest search;
    nearest_start(&search, name, length);
    for (uint32_t i = 0; i < config_option_count; i++)
        nearest_offer(&search, config_options[i].name);
    return search.best;
}
