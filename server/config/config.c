#include "server/config/config.h"

#include <stdlib.h>

#include "server/config/config_option.h"

uint64_t config_share(const struct config *config, uint32_t tenants, uint64_t limit)
{
    const uint32_t percent = config->tenant_share;
    if (tenants < 2 || percent == 100)
        return 0;
    const uint64_t share = limit / 100 * percent + limit % 100 * percent / 100;
    return share > 0 || limit == 0 ? share : 1;
}

uint64_t config_longest_timeout_ms(const struct config *config)
{
    return config->max_timeout_ms != 0 ? config->max_timeout_ms : INT32_MAX;
}

void config_free(struct config *config)
{
    for (uint32_t i = 0; i < config->listen_count; i++)
        free(config->listen[i]);
    config->listen_count = 0;
    for (uint32_t i = 0; i < config_option_count; i++) {
        if (config_options[i].kind != CONFIG_KIND_TEXT)
            continue;
        char **field = (char **)(void *)((unsigned char *)config + config_options[i].offset);
        free(*field);
        *field = NULL;
    }
}
