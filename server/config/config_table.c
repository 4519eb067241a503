/* config_table.c - the table of all options of the daemon, in the order of --help and man page. */
#include <string.h>

#include "proto/nearest.h"
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
static const char *const client_auth_names[] = {"require", "optional", NULL};
static const char *const forwarded_names[] = {"x-forwarded-for", "forwarded", NULL};
static const char *const level_names[] = {"debug", "info", "warning", "error", NULL};
static const char *const format_names[] = {"json", "text", "auto", NULL};
static const char *const gpu_metrics_names[] = {"auto", "all", "off", NULL};

/* Begin an entry of the table. An OPTION names its sources. A SETTING can be given in every source.
 * A RELOADABLE is a SETTING that takes a new value while the daemon runs. */
#define OPTION(text, what, part) .name = (text), .kind = (what), .group = (part)
#define SETTING(text, what, part) OPTION(text, what, part), .sources = EVERYWHERE
#define RELOADABLE(text, what, part) SETTING(text, what, part), .reloadable = true

const struct config_option config_options[] = {
    {SETTING("listen", CONFIG_KIND_ADDRESSES, CONFIG_GROUP_LISTENING), FIELD(listen),
     .standard = "127.0.0.1:8080", .placeholder = "ADDRESS", .private = true,
     .help = "Address to serve on: host:port, [v6]:port for an IPv6 address, unix:PATH for a Unix "
             "socket, or unix:@NAME for an abstract one. May be repeated; the daemon listens on at "
             "most 16 sockets. Port 0 takes a free port, which the log names. Sockets passed in "
             "LISTEN_FDS are served in addition, and in place of the default address."},
    {SETTING("socket-mode", CONFIG_KIND_MODE, CONFIG_GROUP_LISTENING), FIELD(socket_mode),
     .max = 0777, .standard = "0", .placeholder = "MODE", .private = true,
     .help = "Permissions of the files of the Unix sockets in --listen, in octal: 0660 lets the "
             "owner and the group connect. Sockets passed in LISTEN_FDS and abstract sockets keep "
             "what they have. 0: the umask of the daemon decides."},
    {SETTING("socket-group", CONFIG_KIND_TEXT, CONFIG_GROUP_LISTENING), FIELD(socket_group),
     .placeholder = "GROUP", .private = true,
     .help = "Group of the files of the Unix sockets in --listen, as a name or a number. The "
             "daemon's user must be root or a member of the group. Without this option the "
             "group is the one that the system gives to a new file."},
    {SETTING("io-threads", CONFIG_KIND_NUMBER, CONFIG_GROUP_LISTENING), FIELD(io_threads),
     .max = 256, .standard = "0", .placeholder = "N",
     .help =
         "Threads that read requests and write answers. Unless --bulk-connections is 0, as "
         "many threads again serve the connections with large bodies. More threads serve more "
         "small requests a second as long as cores are idle. 0: half of the cores that the "
         "daemon's CPU affinity and the CPU quota of its control groups, such as a container's, "
         "allow; at least 1 and at most 16."},
    {SETTING("max-connections", CONFIG_KIND_NUMBER, CONFIG_GROUP_LISTENING), FIELD(max_connections),
     .min = 1, .max = 1000000, .standard = "8192", .placeholder = "N",
     .help = "Connections that may be open at a time, on all addresses together. A further "
             "connection is answered with 429 and closed. The daemon lowers this limit, and logs a "
             "warning, if the system allows it too few open files."},
    {SETTING("max-connections-per-address", CONFIG_KIND_NUMBER, CONFIG_GROUP_LISTENING),
     FIELD(max_connections_per_address), .max = 1000000, .placeholder = "N",
     .help = "Connections that may be open at a time from one IP address. A further connection "
             "from that address is answered with 429 and closed. Connections over Unix sockets are "
             "not counted. 0: only --max-connections limits. Default: 7/8 of --max-connections, "
             "which leaves nearly all to a proxy and some for other addresses."},
    {SETTING("connection-buffer", CONFIG_KIND_BYTES, CONFIG_GROUP_LISTENING),
     FIELD(connection_buffer_bytes), .min = 8 * KIB, .max = 64 * MIB, .standard = "32K",
     .placeholder = "SIZE",
     .help = "Size of the buffer that each connection reads requests into. A request line that "
             "does not fit in the buffer is refused with 414, headers that do not fit with 431. "
             "The whole buffer is cleared after each request, so a large one slows small "
             "requests. A buffer of more than 32K also costs a system call and newly mapped "
             "memory for each connection, so that refusing requests under overload takes longer."},
    {SETTING("bulk-connections", CONFIG_KIND_NUMBER, CONFIG_GROUP_LISTENING),
     FIELD(bulk_connections), .max = 1000000, .standard = "64", .placeholder = "N",
     .help = "Connections that may have the larger --bulk-buffer at a time. A connection is given "
             "one, and is served by a separate set of --io-threads threads, if the Content-Length "
             "of its first request is 4 MiB or more. Further connections have an ordinary "
             "--connection-buffer. 0: no connection has the larger buffer."},
    {SETTING("bulk-buffer", CONFIG_KIND_BYTES, CONFIG_GROUP_LISTENING), FIELD(bulk_buffer_bytes),
     .min = 8 * KIB, .max = 64 * MIB, .standard = "1M", .placeholder = "SIZE",
     .help =
         "Size of the buffer of a connection whose first request has a body of 4 MiB or more. "
         "Raise the size, to 16M for example, if clients send large bodies over TCP and reading "
         "them keeps the I/O threads busy: it takes up to a tenth less processor time than with "
         "1M. Over Unix sockets it takes as long. The whole buffer is cleared after each "
         "request, so a large one slows small requests on the same connection. "
         "--bulk-connections limits how many connections have this buffer."},
    {RELOADABLE("compress-answers", CONFIG_KIND_SWITCH, CONFIG_GROUP_LISTENING),
     FIELD(compress_answers), .standard = "false",
     .help = "Compress answers of 1 KiB and more for clients whose Accept-Encoding allows gzip or "
             "deflate. A compressed answer takes 256 KiB of memory while it is sent. Matrices "
             "hardly shrink."},
    {SETTING("token-file", CONFIG_KIND_TEXT, CONFIG_GROUP_LISTENING), FIELD(token_file),
     .placeholder = "FILE", .private = true,
     .help = "File of the bearer tokens that are accepted, one a line: TENANT:TOKEN, or TOKEN "
             "alone for the tenant named default. TOKEN may be sha256:HEX, the token's SHA-256, or "
             "cert:NAME, a name in a client certificate. scopes=compute,tensors,metrics,admin, "
             "expires=DATE and max-priority=0-9 may follow. A request without an accepted token is "
             "refused with 401; liveness, readiness and the pages at / and /docs need no token. "
             "Without this option every request is accepted, and all requests are one tenant's."},
    {SETTING("metrics-tenant", CONFIG_KIND_TEXT, CONFIG_GROUP_LISTENING), FIELD(metrics_tenants),
     .placeholder = "NAME,...", .private = true,
     .help = "Tenants of the --token-file whose tokens see the metrics of every tenant, such as "
             "that of a Prometheus server. A token of another tenant sees the metrics of its own "
             "tenant and those of the whole daemon. Without tokens everyone sees all metrics."},
    {SETTING("tls-cert", CONFIG_KIND_TEXT, CONFIG_GROUP_LISTENING), FIELD(tls_cert),
     .placeholder = "FILE", .private = true,
     .help = "PEM file of the daemon's certificate, followed by the certificates of the "
             "authorities between it and the root. With --tls-cert and --tls-key all TCP addresses "
             "speak TLS, and only TLS; Unix sockets do not."},
    {SETTING("tls-key", CONFIG_KIND_TEXT, CONFIG_GROUP_LISTENING), FIELD(tls_key),
     .placeholder = "FILE", .private = true,
     .help = "PEM file of the private key that belongs to --tls-cert."},
    {SETTING("tls-client-ca", CONFIG_KIND_TEXT, CONFIG_GROUP_LISTENING), FIELD(tls_client_ca),
     .placeholder = "FILE", .private = true,
     .help = "PEM file of the authorities whose client certificates are accepted. Clients are "
             "asked for a certificate during the handshake. The token file says with cert:NAME "
             "which tenant a certificate is."},
    {SETTING("tls-client-auth", CONFIG_KIND_CHOICE, CONFIG_GROUP_LISTENING), FIELD(tls_client_auth),
     .choices = client_auth_names, .standard = "require", .placeholder = "MODE", .private = true,
     .help = "Whether a client must have a certificate of --tls-client-ca: require, or optional. A "
             "certificate that does not verify ends the handshake in either case. Needs "
             "--tls-client-ca, without which no client is asked for a certificate."},
    {SETTING("tls-priorities", CONFIG_KIND_TEXT, CONFIG_GROUP_LISTENING), FIELD(tls_priorities),
     .standard = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2", .placeholder = "STRING",
     .private = true, .help = "Versions and ciphers of TLS, as a priority string of GnuTLS."},
    {SETTING("trusted-proxy", CONFIG_KIND_TEXT, CONFIG_GROUP_LISTENING), FIELD(trusted_proxies),
     .placeholder = "ADDRESS,...", .private = true,
     .help =
         "Proxies that are believed when they name the client of a request: addresses, networks "
         "such as 10.0.0.0/8, and unix for all Unix sockets; at most 64. The log then has the "
         "client, and --max-connections-per-address counts the requests in progress of each "
         "client instead of the connections of the proxy. Whoever else sends the header is not "
         "believed."},
    {SETTING("forwarded-header", CONFIG_KIND_CHOICE, CONFIG_GROUP_LISTENING),
     FIELD(forwarded_header), .choices = forwarded_names, .standard = "x-forwarded-for",
     .placeholder = "NAME", .private = true,
     .help =
         "Header that --trusted-proxy appends the address of its client to: x-forwarded-for, or "
         "forwarded (RFC 7239). The other header is ignored, since a proxy that does not know "
         "it passes on what the client has sent. Needs --trusted-proxy."},
    {SETTING("allow-origin", CONFIG_KIND_TEXT, CONFIG_GROUP_LISTENING), FIELD(allow_origin),
     .placeholder = "ORIGIN,...", .private = true,
     .help = "Origins of web pages that may call the daemon from a browser and read the answers, "
             "such as https://app.example.com or http://localhost:3000, as browsers send them in "
             "Origin. Pages of other origins cannot read answers. A page needs a token like any "
             "other client. Without this option only the daemon's own pages can read answers."},
    {SETTING("base-path", CONFIG_KIND_TEXT, CONFIG_GROUP_LISTENING), FIELD(base_path),
     .placeholder = "PATH", .private = true,
     .help = "Path under which a reverse proxy serves the daemon, such as /gemmd, if the proxy "
             "removes the path from the requests that it forwards. The daemon puts the path in "
             "front of each Location, and into the servers of /openapi.json. The links of the "
             "pages are relative and need no option."},
    {SETTING("allow-insecure-network", CONFIG_KIND_SWITCH, CONFIG_GROUP_LISTENING),
     FIELD(allow_insecure_network), .standard = "false", .private = true,
     .help = "Listen on addresses that other hosts may reach although every request from there is "
             "accepted. Without this option the daemon does not start on such an address unless "
             "it has a --token-file or requires client certificates."},

    {SETTING("backend", CONFIG_KIND_CHOICE, CONFIG_GROUP_COMPUTING), FIELD(backend),
     .choices = backend_names, .standard = "auto", .placeholder = "NAME",
     .help = "Where products are computed: cuda (on an NVIDIA GPU), cpu, or auto. auto is cuda if "
             "the host has a GPU that this build supports, else cpu. A GPU that is present but "
             "does not answer ends the daemon at start."},
    {SETTING("devices", CONFIG_KIND_TEXT, CONFIG_GROUP_COMPUTING), FIELD(devices),
     .standard = "all", .placeholder = "LIST",
     .help =
         "The GPUs to compute on: all, or a list of their numbers, counted from 0, and UUIDs, "
         "as in 0,2 or GPU-5f1e0cb2. A UUID that begins with MIG- names an instance of a divided "
         "GPU. Each GPU has memory of --device-bytes and --tensor-bytes. For the CPU backend the "
         "value is a single number, the number of devices that the host's cores are divided "
         "into; all and 0 mean 1."},
    {SETTING("streams", CONFIG_KIND_NUMBER, CONFIG_GROUP_COMPUTING), FIELD(streams), .min = 1,
     .max = 64, .standard = "8", .placeholder = "N",
     .help = "Requests that a GPU computes at the same time, each on a CUDA stream of its own. "
             "Requests that share a launch run on two further streams. With --token-file, one of "
             "four or more streams is kept for requests that cost at most 256 MiB, as a product of "
             "2048 x 2048 x 2048 does. The CPU backend ignores this option (see --cpu-pauses)."},
    {SETTING("max-batch", CONFIG_KIND_NUMBER, CONFIG_GROUP_COMPUTING), FIELD(max_batch), .min = 1,
     .max = 1024, .standard = "64", .placeholder = "N",
     .help = "Requests that may share one launch on the device: small products, attentions, "
             "reductions and softmaxes, or products of few rows with the same resident B. A lower "
             "number bounds how long a request waits for the others of its launch. 1: no request "
             "shares a launch."},
    {SETTING("busy-poll-us", CONFIG_KIND_NUMBER, CONFIG_GROUP_COMPUTING), FIELD(busy_poll_us),
     .max = 1000000, .placeholder = "N",
     .help = "Microseconds for which an I/O thread or the dispatch thread keeps polling for work "
             "before it sleeps. Polling takes processor time and saves the next request the time "
             "of a wake-up. 0: threads sleep at once. Default: 50 if the daemon's CPU affinity and "
             "the CPU quota of its control groups allow 8 cores or more, else 0."},
    {SETTING("cpu-threads", CONFIG_KIND_NUMBER, CONFIG_GROUP_COMPUTING), FIELD(cpu_threads),
     .max = 1024, .standard = "0", .placeholder = "N",
     .help = "Threads that each device of the CPU backend computes with. 0: one for each core that "
             "the daemon's CPU affinity and the CPU quota of its control groups, such as a "
             "container's, allow, divided among the devices. A quota is rounded up to whole "
             "cores. The bits of products in f32 and f64 may depend on this number."},
    {SETTING("cpu-pauses", CONFIG_KIND_SWITCH, CONFIG_GROUP_COMPUTING), FIELD(cpu_pauses),
     .standard = "true",
     .help =
         "Let a long computation of the CPU backend, or the copy of a large tensor, pause every "
         "few milliseconds, so that short requests that wait are computed before the long one "
         "ends. The long one then takes at most about twice as long. When off, the CPU computes "
         "one launch after another."},
    {SETTING("pinned-bytes", CONFIG_KIND_BYTES, CONFIG_GROUP_COMPUTING), FIELD(pinned_bytes),
     .min = MIB, .max = BYTES_MAX, .standard = "2G", .placeholder = "SIZE",
     .help =
         "Size of the host memory that holds request bodies and results. The memory is "
         "reserved at start; with a GPU it is pinned, so that the GPU copies from and to it. A "
         "request for which too little of it is free is refused with 503, so that the size bounds "
         "how many large requests are served at a time."},
    {SETTING("device-bytes", CONFIG_KIND_BYTES, CONFIG_GROUP_COMPUTING), FIELD(device_bytes),
     .max = BYTES_MAX, .standard = "0", .placeholder = "SIZE",
     .help = "Size of the memory of each device that accepted requests compute in, reserved at "
             "start. A request for which too little of it is free is refused with 503, a request "
             "that needs more than all of it with 413. 1/32 of it, at most 256 MiB, is set aside "
             "for each of the two stacks of rows that may be in flight, unless --tensor-bytes is "
             "0. 0: half of the GPU's free memory; on the CPU backend, a quarter of the host's "
             "memory, divided among the devices."},
    {SETTING("tensor-bytes", CONFIG_KIND_BYTES, CONFIG_GROUP_COMPUTING), FIELD(tensor_bytes),
     .max = BYTES_MAX, .standard = "1G", .placeholder = "SIZE",
     .help =
         "Size of the memory of each device that holds resident tensors and sequences, reserved "
         "at start in addition to --device-bytes. A tensor or sequence that does not fit, even "
         "after evictable tensors made room, is refused with 507. 0: none can be kept."},
    {SETTING("touch-share", CONFIG_KIND_SHARE, CONFIG_GROUP_COMPUTING), FIELD(touch_share),
     .max = CONFIG_SHARE_ONE, .standard = "0.1", .placeholder = "SHARE",
     .help =
         "Share of the memory of the host, or of the container if that has less, up to which the "
         "CPU backend allocates the pages of --pinned-bytes and --tensor-bytes ahead, from 0 to 1. "
         "A thread does so after the start, so that the first upload of a large tensor does not "
         "wait for the system to clear pages. It ends early while less than a quarter of the "
         "memory is available. Pages beyond the share are allocated when they are first written. "
         "0: all pages are. With a GPU, all of --pinned-bytes is allocated at the start."},
    {SETTING("without-kernels", CONFIG_KIND_TEXT, CONFIG_GROUP_COMPUTING), FIELD(without_kernels),
     .placeholder = "NAME,...",
     .help = "Names of kernels that are not used, as /info lists them; the next suitable kernel "
             "serves in their place. Kernels that fail the daemon's self-test at start are left "
             "out without being named here."},
    {SETTING("shm-memfd", CONFIG_KIND_SWITCH, CONFIG_GROUP_COMPUTING), FIELD(shm_memfd),
     .standard = "true",
     .help = "Let a client on a Unix socket share memory with its connection, as a sealed memfd, "
             "so that operands and results are not copied through the socket. When off, a request "
             "that names such memory (Gemmd-Memory) is refused with 501."},
    {SETTING("shm-system", CONFIG_KIND_SWITCH, CONFIG_GROUP_COMPUTING), FIELD(shm_system),
     .standard = "false",
     .help = "Let a client on this host register POSIX shared memory by its name "
             "(/v2/systemsharedmemory), so that operands and results are not copied through a "
             "socket. The shared memory object must belong to the client's user. When off, "
             "registering is refused with 501."},
    {SETTING("shm-cuda", CONFIG_KIND_SWITCH, CONFIG_GROUP_COMPUTING), FIELD(shm_cuda),
     .standard = "false",
     .help = "Let a client on this host register GPU memory by its CUDA IPC handle "
             "(/v2/cudasharedmemory), so that operands and results stay on the GPU. When off, "
             "registering is refused with 501."},
    {SETTING("shm-bytes", CONFIG_KIND_BYTES, CONFIG_GROUP_COMPUTING), FIELD(shm_bytes), .min = 1,
     .max = BYTES_MAX, .standard = "4G", .placeholder = "SIZE",
     .help = "Bytes of clients' shared memory that may be mapped at a time, memfds and registered "
             "memory of all clients together. Host memory among it is pinned if a GPU computes. A "
             "mapping beyond the limit is refused with 507."},
    {SETTING("shm-regions", CONFIG_KIND_NUMBER, CONFIG_GROUP_COMPUTING), FIELD(shm_regions),
     .min = 1, .max = 4096, .standard = "256", .placeholder = "N",
     .help = "Mappings of clients' shared memory at a time, and also names registered for shared "
             "memory at a time. A mapping or a name beyond the limit is refused with 507."},

    {RELOADABLE("max-body", CONFIG_KIND_BYTES, CONFIG_GROUP_LIMITS), FIELD(max_body_bytes),
     .min = 1, .max = BYTES_MAX, .placeholder = "SIZE",
     .help = "Longest request body in bytes, counted after decompression. A longer body is refused "
             "with 413. --max-body and --max-result together must fit in each of --pinned-bytes, "
             "--queue-bytes and --tenant-bytes. Default: 1GiB, or half of --pinned-bytes, "
             "--queue-bytes or --tenant-bytes if that is less."},
    {RELOADABLE("max-result", CONFIG_KIND_BYTES, CONFIG_GROUP_LIMITS), FIELD(max_result_bytes),
     .min = 1, .max = BYTES_MAX, .placeholder = "SIZE",
     .help = "Largest result in bytes that is sent to a client. A request with a larger result is "
             "refused with 413. Results that stay on the device (parameter store) or go to shared "
             "memory are not limited. Default: 1GiB, or half of --pinned-bytes, --queue-bytes or "
             "--tenant-bytes if that is less."},
    {RELOADABLE("max-json", CONFIG_KIND_BYTES, CONFIG_GROUP_LIMITS), FIELD(max_json_bytes),
     .min = 1024, .max = UINT64_C(1) << 30, .standard = "4M", .placeholder = "SIZE",
     .help = "Longest JSON text, in bytes, of an inference request (/v2) and of its answer. Longer "
             "JSON is refused with 413; tensors sent as binary data are not counted. An I/O thread "
             "serves nothing else while it reads or writes JSON, which is why the limit is low."},
    {RELOADABLE("max-inflation", CONFIG_KIND_NUMBER, CONFIG_GROUP_LIMITS), FIELD(max_inflation),
     .max = 1000000, .standard = "100", .placeholder = "N",
     .help = "How many times as long as its compressed form a request body may become. The ratio "
             "is checked once the decompressed body is longer than 1 MiB, and a body beyond the "
             "limit is refused with 413. 0: only --max-body limits."},
    {RELOADABLE("max-work", CONFIG_KIND_NUMBER, CONFIG_GROUP_LIMITS), FIELD(max_work),
     .max = UINT64_C(1000000000000000000), .standard = "1000000000000000", .placeholder = "N",
     .help = "Floating-point operations that one request may take: 2 m n k for each product of a "
             "batch, for an attention those of its two products without masked scores, for a "
             "convolution 2 times the elements of its result times the elements of a filter, and "
             "for each element of a reduction 1 and of a softmax 5. A request that takes more is "
             "refused with 413. 0: no limit."},
    {RELOADABLE("queue-requests", CONFIG_KIND_NUMBER, CONFIG_GROUP_LIMITS), FIELD(queue_requests),
     .min = 1, .max = 1000000, .standard = "4096", .placeholder = "N",
     .help =
         "Requests that may be accepted at a time. A request counts from the check of its "
         "headers until the device has computed it, and until its answer has left if the answer "
         "is longer than 64 KiB. A further request is refused with 429."},
    {RELOADABLE("queue-bytes", CONFIG_KIND_BYTES, CONFIG_GROUP_LIMITS), FIELD(queue_bytes),
     .min = 1, .max = BYTES_MAX, .placeholder = "SIZE",
     .help = "Bytes of the bodies and results of all accepted requests together. Resident tensors "
             "and shared memory are not counted. A request that does not fit now is refused with "
             "429, one that could never fit with 413. Default: --pinned-bytes."},
    {SETTING("tenant-share", CONFIG_KIND_NUMBER, CONFIG_GROUP_LIMITS), FIELD(tenant_share),
     .min = 1, .max = 100, .standard = "50", .placeholder = "PERCENT",
     .help = "Percentage of --queue-requests, --queue-bytes, --max-jobs, --job-bytes, "
             "--shm-regions, --shm-bytes (registered names), --tensor-bytes and the 64 streams of "
             "/dashboard/events that one tenant may hold, if the --token-file names more than one. "
             "A single request or job that needs "
             "more bytes is accepted if its tenant has no other. 100: no such limit."},
    {SETTING("tenant-requests", CONFIG_KIND_NUMBER, CONFIG_GROUP_LIMITS), FIELD(tenant_requests),
     .max = 1000000, .placeholder = "N",
     .help = "Requests of one tenant that may be accepted at a time; the --token-file names the "
             "tenants. A further request of that tenant is refused with 429. 0: only "
             "--queue-requests limits. Default: --tenant-share of --queue-requests."},
    {SETTING("tenant-bytes", CONFIG_KIND_BYTES, CONFIG_GROUP_LIMITS), FIELD(tenant_bytes),
     .max = BYTES_MAX, .placeholder = "SIZE",
     .help = "Bytes of the bodies and results of one tenant's accepted requests; the --token-file "
             "names the tenants. Resident tensors and shared memory are not counted. A request of "
             "that tenant that does not fit now is refused with 429, one that could never fit with "
             "413. 0: only --queue-bytes limits. Default: --tenant-share of --queue-bytes."},
    {SETTING("tenant-tensor-bytes", CONFIG_KIND_BYTES, CONFIG_GROUP_LIMITS),
     FIELD(tenant_tensor_bytes), .max = BYTES_MAX, .placeholder = "SIZE",
     .help = "Bytes of device memory that the resident tensors and sequences of one tenant may "
             "take; the --token-file names the tenants. A tensor or sequence beyond the limit is "
             "refused with 507, unless evictable tensors of the same tenant make room. 0: only "
             "--tensor-bytes "
             "limits. Default: --tenant-share of --tensor-bytes."},
    {SETTING("max-jobs", CONFIG_KIND_NUMBER, CONFIG_GROUP_LIMITS), FIELD(max_jobs), .max = 1000000,
     .standard = "1024", .placeholder = "N",
     .help = "Jobs (requests with Prefer: respond-async) that are unfinished or whose result is "
             "kept. A further job is refused with 429. 0: no jobs; a request that asks to be a job "
             "is answered with its result, like any other."},
    {SETTING("job-bytes", CONFIG_KIND_BYTES, CONFIG_GROUP_LIMITS), FIELD(job_bytes), .min = 1,
     .max = BYTES_MAX, .placeholder = "SIZE",
     .help = "Bytes of the results of all jobs together, in ordinary host memory, reserved when a "
             "job is accepted. A job whose result does not fit now is refused with 429, one whose "
             "result could never fit with 413. Default: 1GiB, or --max-result if that is more."},

    {RELOADABLE("timeout", CONFIG_KIND_TIME, CONFIG_GROUP_TIMES), FIELD(default_timeout_ms),
     .max = TIME_MAX, .placeholder = "TIME",
     .help = "Deadline of a request that names none, counted from the request's first byte; for "
             "tensors, from the end of the upload. A request that is not computed by its deadline "
             "is answered with 504. 0: no deadline; --max-timeout must then be 0 too. Default: "
             "60s, or --max-timeout if that is less."},
    {RELOADABLE("max-timeout", CONFIG_KIND_TIME, CONFIG_GROUP_TIMES), FIELD(max_timeout_ms),
     .max = TIME_MAX, .standard = "600s", .placeholder = "TIME",
     .help = "Longest deadline that a request may name. A request that names a longer deadline is "
             "refused with 400. 0: any deadline, up to 2147483647 ms."},
    {RELOADABLE("header-timeout", CONFIG_KIND_TIME, CONFIG_GROUP_TIMES), FIELD(header_timeout_ms),
     .min = 1, .max = TIME_MAX, .standard = "10s", .placeholder = "TIME",
     .help = "How long the headers of a request may take to arrive, counted from its first byte, "
             "or from connecting for the first request of a connection. Then the client is "
             "answered with 408 and the connection is closed."},
    {RELOADABLE("idle-timeout", CONFIG_KIND_TIME, CONFIG_GROUP_TIMES), FIELD(idle_timeout_ms),
     .min = 1, .max = TIME_MAX, .standard = "75s", .placeholder = "TIME",
     .help = "How long a connection may stay open after an answer without sending another request. "
             "Then the connection is closed."},
    {RELOADABLE("body-timeout", CONFIG_KIND_TIME, CONFIG_GROUP_TIMES), FIELD(body_timeout_ms),
     .min = 1, .max = TIME_MAX, .standard = "300s", .placeholder = "TIME",
     .help = "How long the body of a request may take to arrive; then the client is answered with "
             "408. Also how long an answer may take to be sent; then the connection is closed."},
    {RELOADABLE("min-body-rate", CONFIG_KIND_BYTES, CONFIG_GROUP_TIMES), FIELD(min_body_rate),
     .max = BYTES_MAX, .standard = "1K", .placeholder = "SIZE",
     .help = "Bytes a second at which a request body must arrive on average, checked from 5 "
             "seconds after its start. A slower body is answered with 408, and so is a body of "
             "known length that would miss its deadline or --body-timeout even at twice its "
             "average rate. 0: neither is checked."},
    {RELOADABLE("min-answer-rate", CONFIG_KIND_BYTES, CONFIG_GROUP_TIMES), FIELD(min_answer_rate),
     .max = BYTES_MAX, .standard = "1K", .placeholder = "SIZE",
     .help = "Bytes a second at which a client must receive an answer on average, checked from 5 "
             "seconds after its start. The connection of a slower client is closed, and so is the "
             "connection of a client whose answer would miss --body-timeout even at twice its "
             "average rate. Over a Unix socket, whose rate can only be estimated, a client has to "
             "receive 16K a second at most, and --body-timeout alone limits a long answer. 0: "
             "neither is checked."},
    {SETTING("job-ttl", CONFIG_KIND_TIME, CONFIG_GROUP_TIMES), FIELD(job_ttl_ms), .min = 1,
     .max = TIME_MAX, .standard = "10m", .placeholder = "TIME",
     .help = "How long the result of a finished job is kept, unless the client deletes it before. "
             "Afterwards a request for the job is answered with 410, and later, when the job is "
             "forgotten, with 404."},
    {RELOADABLE("max-wait", CONFIG_KIND_TIME, CONFIG_GROUP_TIMES), FIELD(max_wait_ms),
     .max = TIME_MAX, .standard = "60s", .placeholder = "TIME",
     .help = "Longest time that a request for a job's result may wait for the job to finish. A "
             "request that asks to wait longer waits as long as this. 0: such a request is "
             "answered at once."},
    {RELOADABLE("stall-time", CONFIG_KIND_TIME, CONFIG_GROUP_TIMES), FIELD(stall_ms),
     .max = TIME_MAX, .standard = "120s", .placeholder = "TIME",
     .help = "How long the device may have work and finish no part of it before /readyz answers "
             "503; /readyz answers 200 again once the device goes on. A time shorter than the "
             "longest part makes a healthy daemon appear stalled: cuBLAS computes a product in "
             "one part, and the CPU's kernel openblas a matrix in f32 or f64. 0: /readyz does not "
             "look for a stall."},
    {RELOADABLE("drain-delay", CONFIG_KIND_TIME, CONFIG_GROUP_TIMES), FIELD(drain_delay_ms),
     .max = TIME_MAX, .standard = "0", .placeholder = "TIME",
     .help = "How long after SIGTERM the daemon still accepts requests while /readyz answers 503, "
             "so that a load balancer stops sending first. Then the daemon closes its listening "
             "sockets and --drain-timeout begins. 0: the sockets are closed at once."},
    {RELOADABLE("drain-timeout", CONFIG_KIND_TIME, CONFIG_GROUP_TIMES), FIELD(drain_timeout_ms),
     .max = TIME_MAX, .standard = "30s", .placeholder = "TIME",
     .help = "Grace period for accepted requests after SIGTERM and --drain-delay. The daemon exits "
             "as soon as all of them are answered; requests still unfinished after the grace "
             "period are answered with 503. 0: the daemon does not wait for them."},
    {RELOADABLE("takeover-timeout", CONFIG_KIND_TIME, CONFIG_GROUP_TIMES),
     FIELD(takeover_timeout_ms), .min = 1, .max = TIME_MAX, .standard = "120s",
     .placeholder = "TIME",
     .help = "How long after SIGUSR2 the new process may take to start serving, which includes "
             "opening the GPU. A new process that is not ready by then is ended, and the old "
             "process goes on serving."},

    {RELOADABLE("log-level", CONFIG_KIND_CHOICE, CONFIG_GROUP_OPERATION), FIELD(log_level),
     .choices = level_names, .standard = "info", .placeholder = "LEVEL", .private = true,
     .help = "Lowest level that is logged: debug, info, warning or error. Lines of the access log "
             "have level info, those of answers with status 500 or more have level warning."},
    {SETTING("log-format", CONFIG_KIND_CHOICE, CONFIG_GROUP_OPERATION), FIELD(log_format),
     .choices = format_names, .standard = "auto", .placeholder = "FORMAT", .private = true,
     .help = "Format of the log on standard output: json (one object a line), text, or auto. auto "
             "is text if standard output is a terminal, else json."},
    {RELOADABLE("verify-share", CONFIG_KIND_SHARE, CONFIG_GROUP_OPERATION), FIELD(verify_share),
     .standard = "0", .max = CONFIG_SHARE_ONE, .placeholder = "SHARE",
     .help = "Share of the products, from 0 to 1, that the daemon verifies although their clients "
             "have not asked for it (parameter verify), to notice a device that computes wrong "
             "results. Products are drawn at random. A product that fails is answered with 500 and "
             "never sent, logged and counted. Products with an activation are not verified."},
    {RELOADABLE("access-log", CONFIG_KIND_SWITCH, CONFIG_GROUP_OPERATION), FIELD(access_log),
     .standard = "true", .private = true,
     .help = "Log a line for each request, when it is answered."},
    {SETTING("gpu-metrics", CONFIG_KIND_CHOICE, CONFIG_GROUP_OPERATION), FIELD(gpu_metrics),
     .choices = gpu_metrics_names, .standard = "auto", .placeholder = "WHICH", .private = true,
     .help = "GPUs whose utilization, memory, power, temperature, clocks and errors are in the "
             "metrics, as the driver's library NVML reports them once a second: auto (those that "
             "the daemon computes on), all (every GPU of the host, also with the CPU backend) or "
             "off. Without NVML the daemon serves without these metrics."},
    {SETTING("otlp-endpoint", CONFIG_KIND_TEXT, CONFIG_GROUP_OPERATION), FIELD(otlp_endpoint),
     .placeholder = "URL", .private = true,
     .help = "Collector that spans of traced requests are sent to by OTLP over HTTP, as JSON: "
             "http://HOST:PORT or https://HOST:PORT. /v1/traces is appended unless the URL ends "
             "with it. Spans that the collector does not take in time are dropped and counted. "
             "Without this option no spans are made. Needs libcurl."},
    {SETTING("otlp-header-file", CONFIG_KIND_TEXT, CONFIG_GROUP_OPERATION), FIELD(otlp_header_file),
     .placeholder = "FILE", .private = true,
     .help = "File of headers that are sent to --otlp-endpoint with the spans, one a line: NAME: "
             "VALUE, such as 'Authorization: Bearer TOKEN'. Empty lines and lines that begin with "
             "# are skipped. The file is read at the start, and refused if every user of the host "
             "can read or write it."},
    {SETTING("otlp-ca-file", CONFIG_KIND_TEXT, CONFIG_GROUP_OPERATION), FIELD(otlp_ca_file),
     .placeholder = "FILE", .private = true,
     .help = "File of certificate authorities in PEM that the certificate of an --otlp-endpoint "
             "with https:// is verified with, in place of those of the system. The file is checked "
             "at the start and read for each connection to the collector."},
    {SETTING("otlp-sample", CONFIG_KIND_NUMBER, CONFIG_GROUP_OPERATION), FIELD(otlp_sample),
     .max = 100, .standard = "100", .placeholder = "PERCENT", .private = true,
     .help = "Percentage of the requests without a valid traceparent header that are traced. A "
             "request with the header is traced if its sampled flag is set. Has no effect without "
             "--otlp-endpoint."},
    {OPTION("config", CONFIG_KIND_TEXT, CONFIG_GROUP_OPERATION), FIELD(config_file),
     .sources = NOT_IN_FILE, .placeholder = "FILE", .private = true,
     .help = "File to read options from: a JSON object whose keys are the options' names without "
             "dashes in front. Flags and environment variables win over the file."},
    {OPTION("check-config", CONFIG_KIND_ACTION, CONFIG_GROUP_OPERATION), FIELD(action),
     .sources = FLAG_ONLY, .min = CONFIG_CHECK,
     .help =
         "Check the options, the files that they name, and whether an address would let every host "
         "in (--allow-insecure-network), print the options in force as JSON and exit. The JSON is "
         "a valid --config file. How much memory the options allow, and what is wrong, is printed "
         "to standard error."},
    {OPTION("help", CONFIG_KIND_ACTION, CONFIG_GROUP_OPERATION), FIELD(action),
     .sources = FLAG_ONLY, .min = CONFIG_HELP,
     .help = "Print a description of all options and exit."},
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

const char *config_option_nearest(const char *name, size_t length)
{
    struct nearest search;
    nearest_start(&search, name, length);
    for (uint32_t i = 0; i < config_option_count; i++)
        nearest_offer(&search, config_options[i].name);
    return search.best;
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
