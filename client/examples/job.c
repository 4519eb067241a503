/*
 * job.c - a product that is computed while its client is away.
 *
 * Hands a product in as a job and closes the connection. Then a second client, which could be
 * another process that knows the job's id, asks for the job's state, waits for the job, fetches the
 * result, and deletes the job. The daemon's address is the environment's GEMMD_URL, or
 * http://127.0.0.1:8080.
 *
 *     cc job.c $(pkg-config --cflags --libs gemmd) -o job
 *
 * Prints the job's id, its state before and after the wait (the first may be "queued", "running" or
 * "done"), and the 2 x 2 result:
 *
 *     job 7a2412b52e98f0993e9f704cffef062d
 *     queued
 *     done
 *     19 22
 *     43 50
 */
#include <gemmd/gemmd.h>
#include <stdio.h>

/* Fills `id`, which is "" if the daemon takes no jobs. */
static int hand_in(char id[64], struct gemmd_error_info *error)
{
    const float a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8};
    struct gemmd_result result;
    struct gemmd_gemm gemm;
    struct gemmd_client *client = gemmd_client_new(NULL, error);
    int right = client != NULL;

    gemmd_gemm_init(&gemm, sizeof gemm);
    gemm.m = gemm.n = gemm.k = 2;
    gemm.a = a;
    gemm.b = b;
    gemm.job = 1;
    gemmd_result_init(&result, sizeof result);
    if (right)
        right = gemmd_gemm(client, &gemm, &result, error) == GEMMD_OK;
    if (right)
        snprintf(id, 64, "%s", result.job);
    gemmd_free(result.data); /* there only if the daemon takes no jobs */
    gemmd_client_free(client);
    return right;
}

static int print_state(struct gemmd_client *client, const char *id, struct gemmd_error_info *error)
{
    struct gemmd_job job = {.size = sizeof job};
    if (gemmd_job_status(client, id, NULL, &job, error) != GEMMD_OK)
        return 0;
    puts(gemmd_job_state_name(job.state));
    return 1;
}

static int print_result(struct gemmd_client *client, const char *id, struct gemmd_error_info *error)
{
    float c[4];
    struct gemmd_call call;
    struct gemmd_result result;

    gemmd_call_init(&call, sizeof call);
    call.data = c;
    call.bytes = sizeof c;
    gemmd_result_init(&result, sizeof result);
    if (gemmd_job_result(client, id, &call, &result, error) != GEMMD_OK)
        return 0;
    printf("%g %g\n%g %g\n", c[0], c[1], c[2], c[3]);
    return 1;
}

int main(void)
{
    char id[64] = "";
    struct gemmd_error_info error;
    struct gemmd_result result;

    if (!hand_in(id, &error)) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    if (id[0] == '\0') {
        fprintf(stderr, "the daemon takes no jobs (its --max-jobs is 0)\n");
        return 1;
    }
    printf("job %s\n", id);

    struct gemmd_client *client = gemmd_client_new(NULL, &error);
    gemmd_result_init(&result, sizeof result);
    const int right = client != NULL && print_state(client, id, &error) &&
                      gemmd_job_wait(client, id, NULL, &result, &error) == GEMMD_OK &&
                      print_state(client, id, &error) && print_result(client, id, &error) &&
                      gemmd_job_cancel(client, id, NULL, &error) == GEMMD_OK;
    if (!right)
        fprintf(stderr, "%s\n", error.message);
    gemmd_client_free(client);
    return right ? 0 : 1;
}
