#include "kernels/cpu/watch.h"

#include "kernels/cpu/context.h"

void cpu_watch_begin(struct gemm_context *context, bool (*stops)(void *argument), void *argument)
{
    team_watch(cpu_context_of(context)->team, stops, argument);
}

bool cpu_watch_end(struct gemm_context *context)
{
    struct team *team = cpu_context_of(context)->team;
    const bool stopped = team_has_stopped(team);
    team_watch(team, NULL, NULL);
    return stopped;
}
