/* config_table.c - every option of the daemon, in the order of --help and the man page. */
#include <string.h>

#include "server/config/config_option.h"

#define FIELD(name)                                                                                \
    .offset = offsetof(struct config, name), .size = sizeof(((struct config *)0)->name)

enum {
    EVERYWHERE =
        CONFIG_SOURCE_DEFAULT | CONFIG_SOURCE_FILE | CONFIG_SOURCE_ENVIRONMENT | CONFIG_SOURCE_FLAG,
    NOT_IN_FILE = CONFIG_SOURCE_DEFAULT | CONFIG_SOURCE_ENVIRONMENT | CONFIG_SOURCE_FLAG,
    FLAG_ONLY = CONFIG_SOURCE_FLAG
};

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define TIB (UINT64_C(1) << 40)
#define BYTES_MAX (16 * TIB)
#define TIME_MAX UINT32_MAX

static const char *const backend_names[] = {"auto", "cuda", "cpu", NULL};
static const char *const level_names[] = {"debug", "info", "warning", "error", NULL};
static const char *const format_names[] = {"json", "text", NULL};

/* The head of an entry: where a setting stands is free, the others say it themselves. */
#define OPTION(text, what, part) .name = (text), .kind = (what), .group = (part)
#define SETTING(text, what, part) OPTION(text, what, part), .sources = EVERYWHERE

const struct config_option config_options[] = {
    {SETTING("listen", CONFIG_KIND_ADDRESSES, CONFIG_GROUP_LISTENING), FIELD(listen),
     .standard = "127.0.0.1:8080", .placeholder = "ADDRESS", .private = true,
     .help = "Address to serve on, may be repeated: host:port, [v6]:port, unix:PATH or unix:@NAME "
             "(abstract). Port 0 takes a free one. Sockets passed by LISTEN_FDS replace the "
             "default and add to what is given."},
    {SETTING("io-threads", CONFIG_KIND_NUMBER, CONFIG_GROUP_LISTENING), FIELD(io_threads),
     .max = 256, .standard = "0", .placeholder = "N",
     .help = "Threads that read requests and write answers; 0: half of the cores, 1 to 16."},
    {SETTING("max-connections", CONFIG_KIND_NUMBER, CONFIG_GROUP_LISTENING), FIELD(max_connections),
     .min = 1, .max = 1000000, .standard = "8192", .placeholder = "N",
     .help = "Open connections in total; fewer, as the log says then, if the system allows fewer "
             "open files."},
    {SETTING("max-connections-per-address", CONFIG_KIND_NUMBER, CONFIG_GROUP_LISTENING),
     FIELD(max_connections_per_address), .max = 1000000, .standard = "0", .placeholder = "N",
     .help = "Open connections from one IP address; 0: no limit. Unix sockets are not counted."},
    {SETTING("connection-buffer", CONFIG_KIND_BYTES, CONFIG_GROUP_LISTENING),
     FIELD(connection_buffer_bytes), .min = 8 * KIB, .max = 64 * MIB, .standard = "48K",
     .placeholder = "SIZE",
     .help = "Buffer of each connection; all of it is cleared after each request."},
    {SETTING("bulk-connections", CONFIG_KIND_NUMBER, CONFIG_GROUP_LISTENING),
     FIELD(bulk_connections), .max = 1000000, .standard = "64", .placeholder = "N",
     .help = "How many connections may have the larger buffer and threads of their own, because "
             "their first request has a body of 4 MiB or more; 0: none."},
    {SETTING("bulk-buffer", CONFIG_KIND_BYTES, CONFIG_GROUP_LISTENING), FIELD(bulk_buffer_bytes),
     .min = 8 * KIB, .max = 64 * MIB, .standard = "1M", .placeholder = "SIZE",
     .help = "Buffer of each of these."},
    {SETTING("compress-answers", CONFIG_KIND_SWITCH, CONFIG_GROUP_LISTENING),
     FIELD(compress_answers), .standard = "false",
     .help = "Compress answers of 1 KiB and more for clients whose Accept-Encoding takes it (gzip, "
             "deflate); each takes 256 KiB of memory while it is sent. Matrices hardly shrink."},
    {SETTING("token-file", CONFIG_KIND_TEXT, CONFIG_GROUP_LISTENING), FIELD(token_file),
     .placeholder = "FILE", .private = true,
     .help = "Bearer tokens that are let in, one a line: TENANT:TOKEN or TOKEN. Without it "
             "everybody is let in."},

    {SETTING("backend", CONFIG_KIND_CHOICE, CONFIG_GROUP_COMPUTING), FIELD(backend),
     .choices = backend_names, .standard = "auto", .placeholder = "NAME",
     .help = "What computes: auto (a GPU if there is one), cuda or cpu."},
    {SETTING("devices", CONFIG_KIND_NUMBER, CONFIG_GROUP_COMPUTING), FIELD(device), .max = 1023,
     .standard = "0", .placeholder = "N", .help = "CUDA device number to use."},
    {SETTING("streams", CONFIG_KIND_NUMBER, CONFIG_GROUP_COMPUTING), FIELD(streams), .min = 1,
     .max = 64, .standard = "8", .placeholder = "N", .help = "Products in flight on the device."},
    {SETTING("max-batch", CONFIG_KIND_NUMBER, CONFIG_GROUP_COMPUTING), FIELD(max_batch), .min = 1,
     .max = 1024, .standard = "64", .placeholder = "N",
     .help = "Requests that may share one launch (small products and attentions, or rows "
             "of one resident B); fewer bound what one waits for the others."},
    {SETTING("busy-poll-us", CONFIG_KIND_NUMBER, CONFIG_GROUP_COMPUTING), FIELD(busy_poll_us),
     .max = 1000000, .placeholder = "N",
     .help =
         "How many microseconds a thread that has run out of work goes on looking for more before "
         "it sleeps, which spares the next request the wake-up; 0: none. Default: 50 with 8 cores "
         "or more, else 0."},
    {SETTING("cpu-threads", CONFIG_KIND_NUMBER, CONFIG_GROUP_COMPUTING), FIELD(cpu_threads),
     .max = 1024, .standard = "0", .placeholder = "N",
     .help = "Threads that the CPU backend computes with; 0: all cores."},
    {SETTING("pinned-bytes", CONFIG_KIND_BYTES, CONFIG_GROUP_COMPUTING), FIELD(pinned_bytes),
     .min = MIB, .max = BYTES_MAX, .standard = "2G", .placeholder = "SIZE",
     .help = "Host memory, taken at start, that bodies and results lie in."},
    {SETTING("device-bytes", CONFIG_KIND_BYTES, CONFIG_GROUP_COMPUTING), FIELD(device_bytes),
     .max = BYTES_MAX, .standard = "0", .placeholder = "SIZE",
     .help =
         "Device memory, taken at start; 0: half of what is free. A thirty-second of it, at most "
         "256 MiB, is kept for each stack of rows in flight (CUDA: two)."},
    {SETTING("tensor-bytes", CONFIG_KIND_BYTES, CONFIG_GROUP_COMPUTING), FIELD(tensor_bytes),
     .max = BYTES_MAX, .standard = "1G", .placeholder = "SIZE",
     .help = "More device memory, taken at start, for tensors that stay; 0: none can."},
    {SETTING("without-kernels", CONFIG_KIND_TEXT, CONFIG_GROUP_COMPUTING), FIELD(without_kernels),
     .placeholder = "NAME,...",
     .help = "Kernels to leave out, by the names of /info; others take their place. The daemon "
             "leaves out by itself what fails its self-test."},
    {SETTING("shm-memfd", CONFIG_KIND_SWITCH, CONFIG_GROUP_COMPUTING), FIELD(shm_memfd),
     .standard = "true",
     .help = "Compute on memory that a client sends over its Unix socket, as a sealed memfd."},
    {SETTING("shm-system", CONFIG_KIND_SWITCH, CONFIG_GROUP_COMPUTING), FIELD(shm_system),
     .standard = "false",
     .help = "Compute on POSIX shared memory that a client on this host registers by its name "
             "(/v2/systemsharedmemory) and its user owns."},
    {SETTING("shm-cuda", CONFIG_KIND_SWITCH, CONFIG_GROUP_COMPUTING), FIELD(shm_cuda),
     .standard = "false",
     .help = "Compute on GPU memory that a client on this host registers by its handle "
             "(/v2/cudasharedmemory)."},
    {SETTING("shm-bytes", CONFIG_KIND_BYTES, CONFIG_GROUP_COMPUTING), FIELD(shm_bytes), .min = 1,
     .max = BYTES_MAX, .standard = "4G", .placeholder = "SIZE",
     .help = "Client memory in use at a time; a GPU pins it."},
    {SETTING("shm-regions", CONFIG_KIND_NUMBER, CONFIG_GROUP_COMPUTING), FIELD(shm_regions),
     .min = 1, .max = 4096, .standard = "256", .placeholder = "N",
     .help = "How many memories that may be, and how many names they may have."},

    {SETTING("max-body", CONFIG_KIND_BYTES, CONFIG_GROUP_LIMITS), FIELD(max_body_bytes), .min = 1,
     .max = BYTES_MAX, .placeholder = "SIZE",
     .help = "Longest request body. Default: 1GiB, or half of --pinned-bytes, --queue-bytes or "
             "--tenant-bytes if that is less."},
    {SETTING("max-result", CONFIG_KIND_BYTES, CONFIG_GROUP_LIMITS), FIELD(max_result_bytes),
     .min = 1, .max = BYTES_MAX, .placeholder = "SIZE",
     .help = "Largest result. Default: as for --max-body."},
    {SETTING("max-json", CONFIG_KIND_BYTES, CONFIG_GROUP_LIMITS), FIELD(max_json_bytes),
     .min = 1024, .max = UINT64_C(1) << 30, .standard = "4M", .placeholder = "SIZE",
     .help = "Longest JSON of an inference request, and of its answer; reading and writing it "
             "holds up an I/O thread."},
    {SETTING("max-inflation", CONFIG_KIND_NUMBER, CONFIG_GROUP_LIMITS), FIELD(max_inflation),
     .max = 1000000, .standard = "100", .placeholder = "N",
     .help = "How many times longer than it came a compressed body may become, once it is longer "
             "than 1 MiB; 0: any. --max-body bounds what it becomes."},
    {SETTING("queue-requests", CONFIG_KIND_NUMBER, CONFIG_GROUP_LIMITS), FIELD(queue_requests),
     .min = 1, .max = 1000000, .standard = "4096", .placeholder = "N",
     .help = "Requests accepted and not yet done; more are refused with 429."},
    {SETTING("queue-bytes", CONFIG_KIND_BYTES, CONFIG_GROUP_LIMITS), FIELD(queue_bytes), .min = 1,
     .max = BYTES_MAX, .placeholder = "SIZE",
     .help = "Bytes of operands and results of these requests; more are refused with 429. Default: "
             "--pinned-bytes."},
    {SETTING("tenant-requests", CONFIG_KIND_NUMBER, CONFIG_GROUP_LIMITS), FIELD(tenant_requests),
     .max = 1000000, .standard = "0", .placeholder = "N",
     .help = "Such requests of one tenant of the token file; 0: as many as of all."},
    {SETTING("tenant-bytes", CONFIG_KIND_BYTES, CONFIG_GROUP_LIMITS), FIELD(tenant_bytes),
     .max = BYTES_MAX, .standard = "0", .placeholder = "SIZE",
     .help = "Their bytes; 0: as many as of all."},
    {SETTING("tenant-tensor-bytes", CONFIG_KIND_BYTES, CONFIG_GROUP_LIMITS),
     FIELD(tenant_tensor_bytes), .max = BYTES_MAX, .standard = "0", .placeholder = "SIZE",
     .help = "Memory of one tenant's tensors; 0: as much as of all."},
    {SETTING("max-jobs", CONFIG_KIND_NUMBER, CONFIG_GROUP_LIMITS), FIELD(max_jobs), .max = 1000000,
     .standard = "1024", .placeholder = "N",
     .help = "Jobs (Prefer: respond-async) that are not done or whose result is kept; more are "
             "refused with 429. 0: none, who asks for one waits for the answer."},
    {SETTING("job-bytes", CONFIG_KIND_BYTES, CONFIG_GROUP_LIMITS), FIELD(job_bytes), .min = 1,
     .max = BYTES_MAX, .placeholder = "SIZE",
     .help = "Bytes of the results of these jobs, in ordinary memory; more are refused with 429. "
             "Default: 1GiB, or --max-result if that is more."},

    {SETTING("timeout", CONFIG_KIND_TIME, CONFIG_GROUP_TIMES), FIELD(default_timeout_ms),
     .max = TIME_MAX, .placeholder = "TIME",
     .help = "Deadline of a request that names none; 0: none. Default: 60s, or --max-timeout if "
             "that is less."},
    {SETTING("max-timeout", CONFIG_KIND_TIME, CONFIG_GROUP_TIMES), FIELD(max_timeout_ms),
     .max = TIME_MAX, .standard = "600s", .placeholder = "TIME",
     .help = "Longest deadline a request may name; 0: any."},
    {SETTING("header-timeout", CONFIG_KIND_TIME, CONFIG_GROUP_TIMES), FIELD(header_timeout_ms),
     .min = 1, .max = TIME_MAX, .standard = "10s", .placeholder = "TIME",
     .help = "From connecting, or a request's first byte, to its last header."},
    {SETTING("idle-timeout", CONFIG_KIND_TIME, CONFIG_GROUP_TIMES), FIELD(idle_timeout_ms),
     .min = 1, .max = TIME_MAX, .standard = "75s", .placeholder = "TIME",
     .help = "How long a connection may wait for its next request."},
    {SETTING("body-timeout", CONFIG_KIND_TIME, CONFIG_GROUP_TIMES), FIELD(body_timeout_ms),
     .min = 1, .max = TIME_MAX, .standard = "300s", .placeholder = "TIME",
     .help = "How long a body may take to arrive."},
    {SETTING("min-body-rate", CONFIG_KIND_BYTES, CONFIG_GROUP_TIMES), FIELD(min_body_rate),
     .max = BYTES_MAX, .standard = "1K", .placeholder = "SIZE",
     .help = "Bytes a second that a body must average after its first 5 seconds; 0: none."},
    {SETTING("job-ttl", CONFIG_KIND_TIME, CONFIG_GROUP_TIMES), FIELD(job_ttl_ms), .min = 1,
     .max = TIME_MAX, .standard = "10m", .placeholder = "TIME",
     .help = "How long the result of a job is kept, if it is not deleted before."},
    {SETTING("max-wait", CONFIG_KIND_TIME, CONFIG_GROUP_TIMES), FIELD(max_wait_ms), .max = TIME_MAX,
     .standard = "60s", .placeholder = "TIME",
     .help = "Longest that a request for a job's result waits for it; 0: not at all."},
    {SETTING("drain-delay", CONFIG_KIND_TIME, CONFIG_GROUP_TIMES), FIELD(drain_delay_ms),
     .max = TIME_MAX, .standard = "0", .placeholder = "TIME",
     .help = "After SIGTERM: how long to answer not ready and still accept."},
    {SETTING("drain-timeout", CONFIG_KIND_TIME, CONFIG_GROUP_TIMES), FIELD(drain_timeout_ms),
     .max = TIME_MAX, .standard = "30s", .placeholder = "TIME",
     .help = "Then: how long what was accepted may take to finish."},

    {SETTING("log-level", CONFIG_KIND_CHOICE, CONFIG_GROUP_OPERATION), FIELD(log_level),
     .choices = level_names, .standard = "info", .placeholder = "LEVEL", .private = true,
     .help = "Least level to log: debug, info, warning or error."},
    {SETTING("log-format", CONFIG_KIND_CHOICE, CONFIG_GROUP_OPERATION), FIELD(log_format),
     .choices = format_names, .standard = "json", .placeholder = "FORMAT", .private = true,
     .help = "Log lines as json or text."},
    {SETTING("access-log", CONFIG_KIND_SWITCH, CONFIG_GROUP_OPERATION), FIELD(access_log),
     .standard = "true", .private = true, .help = "Log a line for each request."},
    {OPTION("config", CONFIG_KIND_TEXT, CONFIG_GROUP_OPERATION), FIELD(config_file),
     .sources = NOT_IN_FILE, .placeholder = "FILE", .private = true,
     .help = "JSON object with options by their names; flags and environment win over it."},
    {OPTION("check-config", CONFIG_KIND_ACTION, CONFIG_GROUP_OPERATION), FIELD(action),
     .sources = FLAG_ONLY, .min = CONFIG_CHECK,
     .help = "Print the options in force as JSON, which --config takes, and exit."},
    {OPTION("help", CONFIG_KIND_ACTION, CONFIG_GROUP_OPERATION), FIELD(action),
     .sources = FLAG_ONLY, .min = CONFIG_HELP, .help = "Print this and exit."},
    {OPTION("version", CONFIG_KIND_ACTION, CONFIG_GROUP_OPERATION), FIELD(action),
     .sources = FLAG_ONLY, .min = CONFIG_VERSION, .help = "Print the version and exit."},
};
const uint32_t config_option_count = sizeof(config_options) / sizeof(config_options[0]);
_Static_assert(sizeof(config_options) / sizeof(config_options[0]) <= CONFIG_OPTION_MAX,
               "CONFIG_OPTION_MAX is too small");

const char *config_group_title(enum config_group group)
{
    static const char *const titles[CONFIG_GROUP_COUNT] = {
        [CONFIG_GROUP_LISTENING] = "Listening",
        [CONFIG_GROUP_COMPUTING] = "Computing",
        [CONFIG_GROUP_LIMITS] = "Limits",
        [CONFIG_GROUP_TIMES] = "Times",
        [CONFIG_GROUP_OPERATION] = "Logs and operation",
    };
    return titles[group];
}

uint32_t config_option_index(const struct config_option *option)
{
    return (uint32_t)(option - config_options);
}

const struct config_option *config_option_find(const char *name, size_t length)
{
    for (uint32_t i = 0; i < config_option_count; i++) {
        if (strlen(config_options[i].name) == length &&
            memcmp(config_options[i].name, name, length) == 0)
            return &config_options[i];
    }
    return NULL;
}

void config_option_variable(const struct config_option *option, char out[CONFIG_TEXT_MAX])
{
    size_t length = (size_t)snprintf(out, CONFIG_TEXT_MAX, "GEMMD_%s", option->name);
    for (size_t i = 0; i < length && i < CONFIG_TEXT_MAX - 1; i++) {
        if (out[i] == '-')
            out[i] = '_';
        else if (out[i] >= 'a' && out[i] <= 'z')
            out[i] = (char)(out[i] - 'a' + 'A');
    }
}
