#include "client/operation.h"

bool operation_takes(const struct operation *operation, int status)
{
    for (int i = 0; i < OPERATION_STATUSES && operation->statuses[i] != 0; i++)
        if (operation->statuses[i] == status)
            return true;
    return false;
}
