/* server/config*.c: which source wins, what is refused, and that the options in force can be read
 * back. Most tests walk the table, so that a new option is tested by being there. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/config/config_option.h"

enum { FLAG, ENVIRONMENT, IN_FILE, SOURCES };
static const char *const source_names[SOURCES] = {"flag", "environment", "file"};
static const uint32_t source_bits[SOURCES] = {CONFIG_SOURCE_FLAG, CONFIG_SOURCE_ENVIRONMENT,
                                              CONFIG_SOURCE_FILE};

#define COUNT(array) (int)(sizeof(array) / sizeof((array)[0]))

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

enum { PATH_ROOM = 128 };

/* The folder of temporary files. */
static const char *folder(void)
{
    const char *named = getenv("TMPDIR");
    return named != NULL && strlen(named) < 64 ? named : "/tmp";
}

static void temporary(char path[PATH_ROOM], const char *text)
{
    snprintf(path, PATH_ROOM, "%.64s/test_config.XXXXXX", folder());
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    write_file(path, text);
}

/* What one option is given by each source (NULL: nothing), beside `extra` flags. */
struct given {
    const char *flag, *environment, *file;
};

static enum gemmd_error load(struct config *config, const struct config_option *option,
                             struct given given, struct fault *fault)
{
    char flag[256], value[256], variable[256], name[CONFIG_TEXT_MAX], path[PATH_ROOM] = "",
                                                                      file[512];
    char program[] = "gemmd", config_flag[] = "--config";
    char *argv[6] = {program}, *environment[8] = {NULL};
    int argc = 1, variables = 0;
    if (given.flag) {
        snprintf(flag, sizeof(flag), "--%s", option->name);
        snprintf(value, sizeof(value), "%s", given.flag);
        if (option->kind == CONFIG_KIND_SWITCH)
            snprintf(flag, sizeof(flag), "--%s=%s", option->name, given.flag);
        argv[argc++] = flag;
        if (option->kind != CONFIG_KIND_SWITCH)
            argv[argc++] = value;
    }
    if (given.environment) {
        config_option_variable(option, name);
        snprintf(variable, sizeof(variable), "%s=%s", name, given.environment);
        environment[variables++] = variable;
    }
    /* These two options are given together, --tls-client-ca needs both, --tls-client-auth needs
     * --tls-client-ca, and --forwarded-header needs --trusted-proxy. */
    static char cert[] = "GEMMD_TLS_CERT=cert", key[] = "GEMMD_TLS_KEY=key",
                authorities[] = "GEMMD_TLS_CLIENT_CA=ca",
                endpoint[] = "GEMMD_OTLP_ENDPOINT=https://c", proxy[] = "GEMMD_TRUSTED_PROXY=::1";
    if (strncmp(option->name, "tls-", 4) == 0 && strcmp(option->name, "tls-cert") != 0)
        environment[variables++] = cert;
    if (strncmp(option->name, "tls-", 4) == 0 && strcmp(option->name, "tls-key") != 0)
        environment[variables++] = key;
    if (strncmp(option->name, "otlp-", 5) == 0 && strcmp(option->name, "otlp-endpoint") != 0)
        environment[variables++] = endpoint;
    if (strcmp(option->name, "tls-client-auth") == 0)
        environment[variables++] = authorities;
    if (strcmp(option->name, "forwarded-header") == 0)
        environment[variables++] = proxy;
    if (given.file) {
        snprintf(file, sizeof(file), "{\"%s\": \"%s\"}", option->name, given.file);
        temporary(path, file);
        argv[argc++] = config_flag;
        argv[argc++] = path;
    }
    enum gemmd_error error = config_load(config, argc, argv, environment, fault);
    if (path[0])
        unlink(path);
    return error;
}

static struct given only(int source, const char *text)
{
    return (struct given){source == FLAG ? text : NULL, source == ENVIRONMENT ? text : NULL,
                          source == IN_FILE ? text : NULL};
}

/* The option's value in a loaded config as JSON text, with config_free. */
static char *value_of(struct config *config, const struct config_option *option)
{
    json_t *all = config_to_json(config);
    ck_assert_ptr_nonnull(all);
    char *text = json_dumps(json_object_get(all, option->name), JSON_ENCODE_ANY);
    ck_assert_ptr_nonnull(text);
    json_decref(all);
    config_free(config);
    return text;
}

/* Two different good values for an option. */
static void two_values(const struct config_option *option, char a[64], char b[64])
{
    switch (option->kind) {
    case CONFIG_KIND_CHOICE:
        snprintf(a, 64, "%s", option->choices[0]);
        snprintf(b, 64, "%s", option->choices[1]);
        break;
    case CONFIG_KIND_SHARE:
        snprintf(a, 64, "0.5");
        snprintf(b, 64, "0.001");
        break;
    case CONFIG_KIND_SWITCH:
        snprintf(a, 64, "true");
        snprintf(b, 64, "false");
        break;
    case CONFIG_KIND_TEXT: {
        /* A good value of every other text, URLs included, is a URL. */
        const bool is_path = strcmp(option->name, "base-path") == 0;
        const bool is_address = strcmp(option->name, "trusted-proxy") == 0;
        const char *prefix = is_path ? "/" : is_address ? "192.0.2.0/" : "http://";
        snprintf(a, 64, "%s%s", prefix, is_address ? "24" : "one");
        snprintf(b, 64, "%s%s", prefix, is_address ? "25" : "two");
        break;
    }
    case CONFIG_KIND_ADDRESSES:
        snprintf(a, 64, "127.0.0.1:1001");
        snprintf(b, 64, "unix:two");
        break;
    default:
        snprintf(a, 64, "%llu", (unsigned long long)option->min + 1);
        snprintf(b, 64, "%llu", (unsigned long long)option->min + 2);
        break;
    }
}

static bool in_every_source(const struct config_option *option)
{
    return (option->sources & CONFIG_SOURCE_FILE) != 0;
}

START_TEST(stronger_source_wins)
{
    const struct config_option *option = &config_options[_i];
    if (!in_every_source(option))
        return; /* config_file_by_flag_and_environment, actions */
    char values[2][64];
    two_values(option, values[0], values[1]);
    for (int strong = 0; strong < SOURCES; strong++) {
        for (int weak = strong + 1; weak < SOURCES; weak++) {
            for (int which = 0; which < 2; which++) {
                struct config config;
                struct fault fault = {0};
                struct given both = only(strong, values[which]), under = only(weak, values[!which]);
                both.environment = both.environment ? both.environment : under.environment;
                both.file = under.file ? under.file : both.file;
                ck_assert_msg(load(&config, option, only(strong, values[which]), &fault) == 0, "%s",
                              fault.detail);
                char *alone = value_of(&config, option);
                ck_assert_msg(load(&config, option, both, &fault) == 0, "%s", fault.detail);
                char *together = value_of(&config, option);
                ck_assert_msg(strcmp(alone, together) == 0, "%s: %s gives %s, but %s with a %s",
                              option->name, source_names[strong], alone, together,
                              source_names[weak]);
                free(alone);
                free(together);
            }
        }
    }
}
END_TEST

START_TEST(every_source_beats_the_default)
{
    const struct config_option *option = &config_options[_i];
    if (!in_every_source(option))
        return;
    char values[2][64];
    two_values(option, values[0], values[1]);
    for (int source = 0; source < SOURCES; source++) {
        struct config config;
        struct fault fault = {0};
        char *seen[2];
        for (int which = 0; which < 2; which++) {
            ck_assert_msg(load(&config, option, only(source, values[which]), &fault) == 0, "%s",
                          fault.detail);
            seen[which] = value_of(&config, option);
        }
        /* One of the two is not the default, so they differ only if the source is heard. */
        ck_assert_msg(strcmp(seen[0], seen[1]) != 0, "%s: %s is not heard, both give %s",
                      option->name, source_names[source], seen[0]);
        free(seen[0]);
        free(seen[1]);
    }
}
END_TEST

static const char *const bad_values[][8] = {
    [CONFIG_KIND_NUMBER] = {"", "x", "-1", "+1", "1.5", "99999999999999999999", " 1", "0x10"},
    [CONFIG_KIND_BYTES] = {"x", "-1", "1.5G", "12Q", "99999999999999999999", "16777216T", "1 K",
                           "K"},
    [CONFIG_KIND_TIME] = {"x", "-1s", "1.5s", "10d", "99999999999999999999", "9999999h", "1 s",
                          "s"},
    [CONFIG_KIND_SHARE] = {"x", "-1", "1.01", "2", "50%", "nan", " 1", "0x1"},
    [CONFIG_KIND_MODE] = {"x", "-1", "0680", "1777", "00660", "0x1b0", " 1", "u=rw"},
    [CONFIG_KIND_SWITCH] = {"maybe", "2", "TRUE", "-", "y", "nope", "onn", "truefalse"},
    [CONFIG_KIND_CHOICE] = {"maybe", "0", "AUTO", "-", "json,text", "infos", "cpu ", "warn"},
    [CONFIG_KIND_ADDRESSES] = {"8080", ":8080", "127.0.0.1", "127.0.0.1:65536", "::1:80", "[::1]",
                               "unix:", "host:http"},
};

START_TEST(bad_values_name_option_and_source)
{
    const struct config_option *option = &config_options[_i];
    if (!in_every_source(option) || option->kind == CONFIG_KIND_TEXT)
        return;
    for (int source = 0; source < SOURCES; source++) {
        for (size_t bad = 0; bad < 8; bad++) {
            const char *text = bad_values[option->kind][bad];
            if (source == ENVIRONMENT && !text[0])
                continue; /* an empty variable is not set */
            struct config config;
            struct fault fault = {0};
            ck_assert_msg(load(&config, option, only(source, text), &fault) == GEMMD_ERR_USAGE,
                          "%s by %s takes '%s'", option->name, source_names[source], text);
            config_free(&config);

            char named[3][CONFIG_TEXT_MAX];
            snprintf(named[FLAG], CONFIG_TEXT_MAX, "--%s ", option->name);
            config_option_variable(option, named[ENVIRONMENT]);
            snprintf(named[IN_FILE], CONFIG_TEXT_MAX, "\"%s\" in %.64s/test_config.", option->name,
                     folder());
            ck_assert_msg(strncmp(fault.detail, named[source], strlen(named[source])) == 0,
                          "'%s' does not begin with %s", fault.detail, named[source]);
            char field[sizeof(fault.field)];
            snprintf(field, sizeof(field), "%s", option->name);
            ck_assert_str_eq(fault.field, field);
        }
    }
}
END_TEST

START_TEST(bad_values_are_refused_where_a_stronger_source_wins)
{
    const struct config_option *option = &config_options[_i];
    if (!in_every_source(option) || option->kind == CONFIG_KIND_TEXT)
        return;
    char values[2][64];
    two_values(option, values[0], values[1]);
    struct config config;
    struct given given = {.flag = values[0], .file = bad_values[option->kind][1]};
    ck_assert_int_eq(load(&config, option, given, NULL), GEMMD_ERR_USAGE);
    config_free(&config);
}
END_TEST

START_TEST(every_default_is_a_good_value)
{
    const struct config_option *option = &config_options[_i];
    if (!option->standard)
        return;
    struct config config;
    struct fault fault = {0};
    ck_assert_msg(load(&config, option, only(FLAG, option->standard), &fault) == 0, "%s",
                  fault.detail);
    char *explicitly = value_of(&config, option);
    ck_assert_int_eq(load(&config, option, (struct given){0}, NULL), GEMMD_OK);
    char *by_default = value_of(&config, option);
    ck_assert_str_eq(explicitly, by_default);
    free(explicitly);
    free(by_default);
}
END_TEST

START_TEST(options_are_given_where_the_table_says)
{
    const struct config_option *option = &config_options[_i];
    struct config config;
    struct fault fault = {0};
    char text[256], path[PATH_ROOM], flag[] = "--config", program[] = "gemmd";
    snprintf(text, sizeof(text), "{\"%s\": null}", option->name);
    temporary(path, text);
    char *argv[] = {program, flag, path, NULL}, *environment[] = {NULL};
    bool taken = config_load(&config, 3, argv, environment, &fault) == GEMMD_OK;
    config_free(&config);
    unlink(path);
    ck_assert_msg(taken == ((option->sources & source_bits[IN_FILE]) != 0),
                  "\"%s\" in the file: taken %d", option->name, taken);
}
END_TEST

static enum gemmd_error load_flags(struct config *config, const char *const flags[],
                                   struct fault *fault)
{
    char copies[8][128];
    char *argv[9], *environment[] = {NULL};
    int argc = 1;
    snprintf(copies[0], sizeof(copies[0]), "gemmd");
    argv[0] = copies[0];
    for (int i = 0; flags[i]; i++, argc++) {
        snprintf(copies[argc], sizeof(copies[argc]), "%s", flags[i]);
        argv[argc] = copies[argc];
    }
    argv[argc] = NULL;
    return config_load(config, argc, argv, environment, fault);
}

static const struct {
    const char *flags[4], *says;
} flag_cases[] = {
    {{"--queue-request", "1"}, "--queue-request is not an option; did you mean --queue-requests?"},
    {{"--lisen=x"}, "did you mean --listen?"},
    {{"--no-acess-log"}, "did you mean --access-log?"},
    {{"-h"}, "did you mean --help?"},
    {{"--zzzzzzzz"}, "--zzzzzzzz is not an option; --help lists them"},
    {{"--"}, "is not an option"},
    {{""}, "is not expected"},
    {{"serve"}, "\"serve\" is not expected"},
    {{"--access-log", "maybe"}, "\"maybe\" is not expected"},
    {{"--listen"}, "--listen needs a value: --listen ADDRESS"},
    {{"--token-file", "--check-config"}, "--token-file needs a value"},
    {{"--check-config=yes"}, "--check-config takes no value"},
    {{"--no-backend"}, "is not an option"},
    {{"--no-access-log=true"}, "is not an option"},
    {{"--token-file="}, "--token-file has an empty value"},
    {{"--io-threads", "257"}, "is \"257\"; it must be a whole number from 0 to 256"},
    {{"--connection-buffer", "1"}, "it must be a size from 8KiB to 64MiB, such as"},
    {{"--backend", "gpu"}, "one of auto, cuda, cpu"},
    {{"--config", "not-there.json"}, "not-there.json"},
};

START_TEST(wrong_flags)
{
    struct config config;
    struct fault fault = {0};
    enum gemmd_error error = load_flags(&config, flag_cases[_i].flags, &fault);
    config_free(&config);
    ck_assert_msg(error == GEMMD_ERR_USAGE || error == GEMMD_ERR_IO, "%s: error %d",
                  flag_cases[_i].flags[0], (int)error);
    ck_assert_msg(strstr(fault.detail, flag_cases[_i].says), "'%s' does not say '%s'", fault.detail,
                  flag_cases[_i].says);
}
END_TEST

static const struct {
    const char *flags[5];
    bool accepted;
    const char *says;
} contradiction_cases[] = {
    {{"--max-body=2G"}, false, "--pinned-bytes (default)"},
    {{"--max-body=2G", "--pinned-bytes=4G"}, true, NULL},
    {{"--max-body=2G", "--max-result=3G", "--pinned-bytes=4G"},
     false,
     "--max-result of 3221225472"},
    {{"--pinned-bytes=1M"}, true, NULL},
    {{"--queue-bytes=1K"}, true, NULL},
    {{"--queue-bytes=1K", "--max-body=1K"}, false, "--queue-bytes of 1024 is too small"},
    {{"--max-timeout=1s"}, true, NULL},
    {{"--max-timeout=1s", "--timeout=2s"},
     false,
     "--timeout of 2000 ms is longer than --max-timeout of 1000 ms"},
    {{"--max-timeout=1s", "--timeout=0"},
     false,
     "--timeout of 0 (no deadline) is longer than --max-timeout of 1000 ms"},
    {{"--max-timeout=0", "--timeout=0"}, true, NULL},
    {{"--max-connections=5", "--max-connections-per-address=5"}, true, NULL},
    {{"--max-connections=5", "--max-connections-per-address=6"},
     false,
     "of 6 is more than --max-connections of 5"},
};

START_TEST(contradictions)
{
    struct config config;
    struct fault fault = {0};
    enum gemmd_error error = load_flags(&config, contradiction_cases[_i].flags, &fault);
    config_free(&config);
    ck_assert_msg((error == GEMMD_OK) == contradiction_cases[_i].accepted, "%s: %s",
                  contradiction_cases[_i].flags[0], fault.detail);
    if (!contradiction_cases[_i].accepted)
        ck_assert_msg(strstr(fault.detail, contradiction_cases[_i].says), "'%s' does not say '%s'",
                      fault.detail, contradiction_cases[_i].says);
}
END_TEST

static const struct {
    const char *text, *says;
} file_cases[] = {
    {"", "line 1"},
    {"[]", "one JSON object"},
    {"{\"streams\": 4", "line 1"},
    {"{\"streams\": 4, \"streams\": 5}", "duplicate"},
    {"{\"stream\": 4}", "did you mean \"streams\"?"},
    {"{\"help\": true}", "is an option that a --config file cannot set"},
    {"{\"streams\": 4.5}", "a whole number"},
    {"{\"streams\": true}", "a whole number"},
    {"{\"streams\": [4]}", "a whole number"},
    {"{\"listen\": [1]}", "\"listen\" in"},
    {"{\"listen\": [[\"127.0.0.1:0\"]]}", "\"listen\" in"},
};

START_TEST(wrong_files)
{
    char path[PATH_ROOM], flag[] = "--config", program[] = "gemmd";
    temporary(path, file_cases[_i].text);
    char *argv[] = {program, flag, path, NULL}, *environment[] = {NULL};
    struct config config;
    struct fault fault = {0};
    enum gemmd_error error = config_load(&config, 3, argv, environment, &fault);
    config_free(&config);
    unlink(path);
    ck_assert_msg(error == GEMMD_ERR_USAGE, "%s: error %d", file_cases[_i].text, (int)error);
    ck_assert_msg(strstr(fault.detail, file_cases[_i].says), "'%s' does not say '%s'", fault.detail,
                  file_cases[_i].says);
}
END_TEST

/* The result of a configuration file and one environment variable; the caller frees `config`. */
static enum gemmd_error load_both(struct config *config, const char *text, const char *variable,
                                  struct fault *fault)
{
    char path[PATH_ROOM], flag[] = "--config", program[] = "gemmd", copy[256];
    temporary(path, text);
    snprintf(copy, sizeof copy, "%s", variable);
    char *argv[] = {program, flag, path, NULL}, *environment[] = {copy, NULL};
    const enum gemmd_error error = config_load(config, 3, argv, environment, fault);
    unlink(path);
    return error;
}

START_TEST(null_leaves_an_option_as_it_is)
{
    struct config config;
    ck_assert_int_eq(load_both(&config,
                               "{\"streams\": null, \"listen\": [\"127.0.0.1:0\", \"unix:@x\"]}",
                               "OTHER=1", NULL),
                     GEMMD_OK);
    ck_assert_uint_gt(config.streams, 0);
    ck_assert_uint_eq(config.listen_count, 2);
    ck_assert_str_eq(config.listen[1], "unix:@x");
    config_free(&config);
    ck_assert_int_eq(load_both(&config, "[4]", "OTHER=1", NULL), GEMMD_ERR_USAGE);
    config_free(&config);
}
END_TEST

static const struct {
    const char *variable;
    enum gemmd_error code;
} variables[] = {
    /* What Kubernetes sets for a service named gemmd. */
    {"GEMMD_SERVICE_HOST=10.0.0.1", GEMMD_OK},
    {"GEMMD_SERVICE_PORT=8080", GEMMD_OK},
    {"GEMMD_SERVICE_PORT_HTTP=8080", GEMMD_OK},
    {"GEMMD_PORT=tcp://10.0.0.1:8080", GEMMD_OK},
    {"GEMMD_PORT_8080_TCP=tcp://10.0.0.1:8080", GEMMD_OK},
    {"GEMMD_SERVICE_PORTS=8080", GEMMD_ERR_USAGE},
    {"GEMMD_SERVICE_HOSTS=10.0.0.1", GEMMD_ERR_USAGE},
    {"GEMMD_PORT=8080", GEMMD_ERR_USAGE},
    {"GEMMD_PORT_HTTP=8080", GEMMD_ERR_USAGE},
    {"GEMMD_PORTX=8080", GEMMD_ERR_USAGE},
    {"GEMMD_LISTEN=127.0.0.1:0,nowhere,[::1]:0", GEMMD_ERR_USAGE},
    {"GEMMD_BODY_TIMEOUT=1000000000000000000000000000000", GEMMD_ERR_USAGE},
};

START_TEST(variables_of_others_are_told_apart)
{
    struct config config;
    struct fault fault = {0};
    const enum gemmd_error code = load_both(&config, "{}", variables[_i].variable, &fault);
    config_free(&config);
    ck_assert_msg(code == variables[_i].code, "%s: %s", variables[_i].variable, fault.detail);
}
END_TEST

START_TEST(repeated_listen)
{
    struct config config;
    const char *flags[] = {"--listen", "127.0.0.1:0", "--listen=[::1]:0", "--listen=unix:x", NULL};
    ck_assert_int_eq(load_flags(&config, flags, NULL), GEMMD_OK);
    ck_assert_uint_eq(config.listen_count, 3);
    ck_assert_str_eq(config.listen[1], "[::1]:0");
    config_free(&config);

    char variable[] = "GEMMD_LISTEN=127.0.0.1:0,unix:@x", program[] = "gemmd";
    char *argv[] = {program, NULL}, *environment[] = {variable, NULL};
    ck_assert_int_eq(config_load(&config, 1, argv, environment, NULL), GEMMD_OK);
    ck_assert_uint_eq(config.listen_count, 2);
    ck_assert_str_eq(config.listen[1], "unix:@x");
    config_free(&config);
}
END_TEST

START_TEST(too_many_addresses)
{
    char variable[1024], program[] = "gemmd";
    size_t length = (size_t)snprintf(variable, sizeof(variable), "GEMMD_LISTEN=unix:0");
    for (int i = 1; i <= CONFIG_LISTEN_MAX; i++)
        length += (size_t)snprintf(variable + length, sizeof(variable) - length, ",unix:%d", i);
    char *argv[] = {program, NULL}, *environment[] = {variable, NULL};
    struct config config;
    struct fault fault = {0};
    ck_assert_int_eq(config_load(&config, 1, argv, environment, &fault), GEMMD_ERR_USAGE);
    ck_assert_str_eq(fault.field, "listen");
    config_free(&config);
}
END_TEST

START_TEST(inherited_sockets_replace_the_default_address)
{
    char pid[32];
    struct config config;
    const char *flags[] = {NULL}, *given[] = {"--listen=unix:x", NULL};
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    setenv("LISTEN_PID", pid, 1);
    setenv("LISTEN_FDS", "1", 1);
    ck_assert_int_eq(load_flags(&config, flags, NULL), GEMMD_OK);
    ck_assert_uint_eq(config.listen_count, 0);
    config_free(&config);
    ck_assert_int_eq(load_flags(&config, given, NULL), GEMMD_OK);
    ck_assert_uint_eq(config.listen_count, 1);
    config_free(&config);
    setenv("LISTEN_PID", "1", 1); /* another process's */
    ck_assert_int_eq(load_flags(&config, flags, NULL), GEMMD_OK);
    ck_assert_uint_eq(config.listen_count, 1);
    config_free(&config);
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
}
END_TEST

static const struct {
    const char *flags[4];
    bool on;
} switch_cases[] = {
    {{"--access-log"}, true},
    {{"--no-access-log"}, false},
    {{"--access-log=off"}, false},
    {{"--access-log", "false"}, false},
    {{"--access-log", "true"}, true},
    {{"--access-log", "--no-access-log"}, false},
    {{"--no-access-log", "--access-log"}, true},
    {{"--no-access-log", "--streams", "3"}, false},
};

START_TEST(switches)
{
    struct config config;
    struct fault fault = {0};
    ck_assert_msg(load_flags(&config, switch_cases[_i].flags, &fault) == GEMMD_OK, "%s",
                  fault.detail);
    ck_assert_int_eq(config.access_log, switch_cases[_i].on);
    config_free(&config);
}
END_TEST

START_TEST(actions)
{
    struct config config;
    const char *check[] = {"--check-config", NULL}, *none[] = {NULL};
    ck_assert_int_eq(load_flags(&config, none, NULL), GEMMD_OK);
    ck_assert_int_eq(config.action, CONFIG_RUN);
    config_free(&config);
    ck_assert_int_eq(load_flags(&config, check, NULL), GEMMD_OK);
    ck_assert_int_eq(config.action, CONFIG_CHECK);
    config_free(&config);
}
END_TEST

START_TEST(help_and_version_need_nothing_else_to_be_right)
{
    char help[] = "--help", version[] = "--version", program[] = "gemmd",
         wrong[] = "GEMMD_STREAMS=x";
    char *argv_help[] = {program, help, NULL}, *argv_version[] = {program, version, NULL};
    char *environment[] = {wrong, NULL};
    struct config config;
    ck_assert_int_eq(config_load(&config, 2, argv_help, environment, NULL), GEMMD_OK);
    ck_assert_int_eq(config.action, CONFIG_HELP);
    config_free(&config);
    ck_assert_int_eq(config_load(&config, 2, argv_version, environment, NULL), GEMMD_OK);
    ck_assert_int_eq(config.action, CONFIG_VERSION);
    config_free(&config);
}
END_TEST

START_TEST(config_file_by_flag_and_environment)
{
    char a[PATH_ROOM], b[PATH_ROOM], flag[] = "--config", program[] = "gemmd",
                                     variable[PATH_ROOM + 16];
    temporary(a, "{\"streams\": 3}");
    temporary(b, "{\"streams\": 5}");
    snprintf(variable, sizeof(variable), "GEMMD_CONFIG=%s", b);
    char *argv[] = {program, flag, a, NULL}, *environment[] = {variable, NULL};
    struct config config;
    ck_assert_int_eq(config_load(&config, 1, argv, environment, NULL), GEMMD_OK);
    ck_assert_uint_eq(config.streams, 5);
    config_free(&config);
    ck_assert_int_eq(config_load(&config, 3, argv, environment, NULL), GEMMD_OK);
    ck_assert_uint_eq(config.streams, 3);
    config_free(&config);
    unlink(a);
    unlink(b);
}
END_TEST

START_TEST(options_in_force_can_be_read_back)
{
    const char *flags[] = {"--listen=unix:x",
                           "--backend=cpu",
                           "--no-access-log",
                           "--timeout=90s",
                           "--max-body=3M",
                           "--token-file=t",
                           NULL};
    struct config first, second;
    char path[PATH_ROOM], flag[] = "--config", program[] = "gemmd";
    ck_assert_int_eq(load_flags(&first, flags, NULL), GEMMD_OK);
    json_t *written = config_to_json(&first);
    char *text = json_dumps(written, JSON_INDENT(2));
    temporary(path, text);
    char *argv[] = {program, flag, path, NULL}, *environment[] = {NULL};
    struct fault fault = {0};
    ck_assert_msg(config_load(&second, 3, argv, environment, &fault) == GEMMD_OK, "%s",
                  fault.detail);
    json_t *again = config_to_json(&second);
    ck_assert_msg(json_equal(written, again), "what was read back differs from %s", text);
    ck_assert_uint_eq(second.default_timeout_ms, 90000);
    ck_assert_uint_eq(second.max_body_bytes, 3 << 20);
    ck_assert(!second.access_log);
    json_decref(written);
    json_decref(again);
    free(text);
    unlink(path);
    config_free(&first);
    config_free(&second);
}
END_TEST

START_TEST(limits_are_divided_among_tenants)
{
    struct config config = {.tenant_share = 25,
                            .shares_requests = true,
                            .shares_bytes = true,
                            .shares_tensors = true,
                            .queue_requests = 40,
                            .queue_bytes = 400,
                            .tensor_bytes = 800,
                            .max_jobs = 80,
                            .job_bytes = 1200,
                            .shm_regions = 4,
                            .shm_bytes = 1600};
    config_divide(&config, 2);
    ck_assert_uint_eq(config.tenant_requests, 10);
    ck_assert_uint_eq(config.tenant_share_bytes, 100);
    ck_assert_uint_eq(config.tenant_tensor_bytes, 200);
    ck_assert_uint_eq(config.tenant_jobs, 20);
    ck_assert_uint_eq(config.tenant_job_bytes, 300);
    ck_assert_uint_eq(config.tenant_regions, 1);
    ck_assert_uint_eq(config.tenant_region_bytes, 400);
    config_divide(&config, 1);
    ck_assert_uint_eq(config.tenant_requests + config.tenant_share_bytes +
                          config.tenant_tensor_bytes + config.tenant_jobs +
                          config.tenant_job_bytes + config.tenant_regions +
                          config.tenant_region_bytes,
                      0);
    /* Limits that are given as options are not divided. */
    config.shares_requests = config.shares_bytes = config.shares_tensors = false;
    config.tenant_requests = 7;
    config.tenant_tensor_bytes = 70;
    config_divide(&config, 2);
    ck_assert_uint_eq(config.tenant_requests, 7);
    ck_assert_uint_eq(config.tenant_tensor_bytes, 70);
    ck_assert_uint_eq(config.tenant_share_bytes, 0);
}
END_TEST

START_TEST(limits_say_nothing_private)
{
    const char *flags[] = {"--listen=unix:secret-place", "--token-file=secret-tokens", NULL};
    struct config config;
    ck_assert_int_eq(load_flags(&config, flags, NULL), GEMMD_OK);
    json_t *limits = config_limits_to_json(&config);
    char *text = json_dumps(limits, 0);
    ck_assert_ptr_null(strstr(text, "secret"));
    ck_assert_ptr_nonnull(json_object_get(limits, "max-body"));
    json_decref(limits);
    free(text);
    config_free(&config);
}
END_TEST

START_TEST(help_names_every_option_and_default)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    config_print_help(out);
    ck_assert_int_eq(fclose(out), 0);
    for (uint32_t i = 0; i < config_option_count; i++) {
        char line[256];
        const struct config_option *option = &config_options[i];
        snprintf(line, sizeof(line), "\n  --%s%s%s", option->name, option->placeholder ? " " : "",
                 option->placeholder ? option->placeholder : "");
        ck_assert_msg(strstr(text, line), "--help lacks --%s", option->name);
    }
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
        ck_assert_msg(strcspn(line, "\n") <= 80, "--help has a line of more than 80: %.90s", line);
    free(text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("config");
    TCase *tests = tcase_create("config");
    int options = (int)config_option_count;
    tcase_add_loop_test(tests, stronger_source_wins, 0, options);
    tcase_add_loop_test(tests, every_source_beats_the_default, 0, options);
    tcase_add_loop_test(tests, bad_values_name_option_and_source, 0, options);
    tcase_add_loop_test(tests, bad_values_are_refused_where_a_stronger_source_wins, 0, options);
    tcase_add_loop_test(tests, every_default_is_a_good_value, 0, options);
    tcase_add_loop_test(tests, options_are_given_where_the_table_says, 0, options);
    tcase_add_loop_test(tests, wrong_flags, 0, COUNT(flag_cases));
    tcase_add_loop_test(tests, contradictions, 0, COUNT(contradiction_cases));
    tcase_add_loop_test(tests, wrong_files, 0, COUNT(file_cases));
    tcase_add_test(tests, null_leaves_an_option_as_it_is);
    tcase_add_loop_test(tests, variables_of_others_are_told_apart, 0, COUNT(variables));
    tcase_add_test(tests, repeated_listen);
    tcase_add_test(tests, too_many_addresses);
    tcase_add_test(tests, inherited_sockets_replace_the_default_address);
    tcase_add_loop_test(tests, switches, 0, COUNT(switch_cases));
    tcase_add_test(tests, actions);
    tcase_add_test(tests, help_and_version_need_nothing_else_to_be_right);
    tcase_add_test(tests, config_file_by_flag_and_environment);
    tcase_add_test(tests, options_in_force_can_be_read_back);
    tcase_add_test(tests, limits_are_divided_among_tenants);
    tcase_add_test(tests, limits_say_nothing_private);
    tcase_add_test(tests, help_names_every_option_and_default);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
