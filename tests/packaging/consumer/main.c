#include <gemmd/gemmd.h>
#include <stdio.h>

int main(void)
{
    struct gemmd_error_info error;
    struct gemmd_client *client = gemmd_client_new(NULL, &error);
    if (client == NULL) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    gemmd_client_free(client);
    puts(gemmd_version());
    return 0;
}
