#include "client/gemmctl/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_ROOM = 4096, PATH_ROOM = 4096 };

static const struct {
    const char *key, *variable;
    enum option_id option;
} keys[SETTINGS_KEYS] = {
    [SETTINGS_URL] = {"url", "GEMMD_URL", OPTION_URL},
    [SETTINGS_TOKEN_FILE] = {"token-file", "GEMMD_TOKEN", OPTION_TOKEN_FILE},
    [SETTINGS_CA_FILE] = {"ca-file", "GEMMD_CA_FILE", OPTION_CA_FILE},
    [SETTINGS_CERT_FILE] = {"cert-file", "GEMMD_CERT_FILE", OPTION_CERT_FILE},
    [SETTINGS_KEY_FILE] = {"key-file", "GEMMD_KEY_FILE", OPTION_KEY_FILE},
};

/* The value of an environment variable; NULL: not set, or empty. */
static const char *environment(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* Writes the directory of the file. False: there is no home directory, or the path is too long. */
static bool find_directory(char path[PATH_ROOM])
{
    const char *config = environment("XDG_CONFIG_HOME"), *home = environment("HOME");
    int length = -1;
    if (config != NULL && config[0] == '/') /* a relative path is invalid and ignored (XDG 0.8) */
        length = snprintf(path, PATH_ROOM, "%s/gemmd", config);
    else if (home != NULL)
        length = snprintf(path, PATH_ROOM, "%s/.config/gemmd", home);
    return length > 0 && length < PATH_ROOM - 8;
}

/* Opens the file. NULL: there is none, or it cannot be read; errno tells which. */
static FILE *open_file(char directory[PATH_ROOM])
{
    char path[PATH_ROOM + 8];
    if (!find_directory(directory)) {
        errno = ENOENT;
        return NULL;
    }
    snprintf(path, sizeof path, "%s/config", directory);
    return fopen(path, "re");
}

/* Cuts spaces at both ends off. Returns where the text begins. */
static char *trim(char *text)
{
    static const char spaces[] = " \t\r\n";
    text += strspn(text, spaces);
    size_t length = strlen(text);
    while (length > 0 && strchr(spaces, text[length - 1]) != NULL)
        length--;
    text[length] = '\0';
    return text;
}

enum line_kind { LINE_EMPTY, LINE_SECTION, LINE_VALUE, LINE_WRONG };

/* Takes a line apart: "[name]", or "name = value". The strings are parts of the line. */
static enum line_kind read_line(char *line, char **name, char **value)
{
    char *text = trim(line), *equals = strchr(text, '=');
    const size_t length = strlen(text);
    if (length == 0 || text[0] == '#')
        return LINE_EMPTY;
    if (text[0] == '[') {
        if (text[length - 1] != ']')
            return LINE_WRONG;
        text[length - 1] = '\0';
        *name = trim(text + 1);
        return **name != '\0' ? LINE_SECTION : LINE_WRONG;
    }
    if (equals == NULL)
        return LINE_WRONG;
    *equals = '\0';
    *name = trim(text);
    *value = trim(equals + 1);
    return **value != '\0' ? LINE_VALUE : LINE_WRONG;
}

/* Returns a new string: the value, or the path that the value stands for. NULL: out of memory. */
static char *value_of(enum settings_key key, const char *value, const char *directory)
{
    const char *home = environment("HOME");
    char *path;
    if (key == SETTINGS_URL || value[0] == '/')
        return strdup(value);
    const bool at_home = strncmp(value, "~/", 2) == 0 && home != NULL;
    if (asprintf(&path, "%s/%s", at_home ? home : directory, at_home ? value + 2 : value) < 0)
        return NULL;
    return path;
}

/* The lines of the file, while they are read. */
struct reading {
    const char *wanted; /* the context */
    const char *directory;
    char **owned;       /* [SETTINGS_KEYS] */
    bool found, inside; /* the wanted context was found; the line is in it */
    bool has_section;   /* there was a section before the line */
};

/* Takes one value of the wanted context. False, with a sentence in `problem`. */
static bool take_value(struct reading *reading, const char *name, const char *value,
                       char problem[PROBLEM_MAX])
{
    int key = 0;
    while (key < SETTINGS_KEYS && strcmp(keys[key].key, name) != 0)
        key++;
    if (key == SETTINGS_KEYS || reading->owned[key] != NULL) {
        snprintf(problem, PROBLEM_MAX,
                 key == SETTINGS_KEYS
                     ? "'%.64s' is not a key of a context; those are url, token-file, ca-file, "
                       "cert-file and key-file"
                     : "'%.64s' is given twice",
                 name);
        return false;
    }
    reading->owned[key] = value_of((enum settings_key)key, value, reading->directory);
    if (reading->owned[key] == NULL)
        snprintf(problem, PROBLEM_MAX, "there is no memory");
    return reading->owned[key] != NULL;
}

static bool take_line(struct reading *reading, char *line, char problem[PROBLEM_MAX])
{
    char *name = NULL, *value = NULL;
    switch (read_line(line, &name, &value)) {
    case LINE_EMPTY:
        return true;
    case LINE_SECTION:
        reading->has_section = true;
        reading->inside = strcmp(name, reading->wanted) == 0;
        reading->found = reading->found || reading->inside;
        return true;
    case LINE_VALUE:
        if (!reading->has_section) {
            snprintf(problem, PROBLEM_MAX, "a value stands behind the name of its context, [NAME]");
            return false;
        }
        return !reading->inside || take_value(reading, name, value, problem);
    case LINE_WRONG:
        break;
    }
    snprintf(problem, PROBLEM_MAX, "a line is '[NAME]', 'KEY = VALUE', or begins with #");
    return false;
}

/* Reads a context. `required`: it is an error if there is no such context. */
static bool read_context(struct settings *settings, const char *name, bool required,
                         char problem[PROBLEM_MAX])
{
    char directory[PATH_ROOM] = "", line[LINE_ROOM], reason[PROBLEM_MAX];
    FILE *file = open_file(directory);
    if (file == NULL && (required || errno != ENOENT)) {
        snprintf(problem, PROBLEM_MAX, "%.128s/config, the file of contexts, cannot be read: %s",
                 directory, strerror(errno));
        return false;
    }
    if (file == NULL)
        return true;
    struct reading reading = {.wanted = name, .directory = directory, .owned = settings->owned};
    bool right = true;
    for (unsigned number = 1; right && fgets(line, sizeof line, file) != NULL; number++) {
        right = take_line(&reading, line, reason);
        if (!right)
            snprintf(problem, PROBLEM_MAX, "%.96s/config, line %u: %.128s", directory, number,
                     reason);
    }
    fclose(file);
    if (right && required && !reading.found) {
        snprintf(problem, PROBLEM_MAX, "there is no context '%.64s' in %.128s/config", name,
                 directory);
        return false;
    }
    return right;
}

bool settings_read(struct settings *settings, const struct arguments *arguments,
                   char problem[PROBLEM_MAX])
{
    const char *named = arguments->values[OPTION_CONTEXT], *chosen = environment("GEMMD_CONTEXT");
    const bool elsewhere =
        arguments->values[OPTION_URL] != NULL || environment("GEMMD_URL") != NULL;
    *settings = (struct settings){0};
    if (named != NULL && !read_context(settings, named, true, problem))
        return false;
    if (named == NULL && !elsewhere &&
        !read_context(settings, chosen != NULL ? chosen : "default", chosen != NULL, problem))
        return false;
    for (int key = 0; key < SETTINGS_KEYS; key++) {
        const char *option = arguments->values[keys[key].option];
        if (option != NULL)
            settings->values[key] = option;
        else if (named !=
                 NULL) /* in place of the environment, also where the context has no value */
            settings->values[key] = settings->owned[key] != NULL ? settings->owned[key] : "";
        else if (environment(keys[key].variable) == NULL)
            settings->values[key] = settings->owned[key];
    }
    if (named != NULL && settings->values[SETTINGS_URL][0] == '\0') {
        snprintf(problem, PROBLEM_MAX, "the context '%.64s' has no url", named);
        return false;
    }
    return true;
}

void settings_free(struct settings *settings)
{
    for (int key = 0; key < SETTINGS_KEYS; key++)
        free(settings->owned[key]);
}

const char *settings_address(const struct settings *settings)
{
    const char *url = settings->values[SETTINGS_URL];
    if (url == NULL)
        url = environment("GEMMD_URL");
    return url != NULL && url[0] != '\0' ? url : "http://127.0.0.1:8080";
}

void settings_list(void (*each)(const char *name, void *user), void *user)
{
    char directory[PATH_ROOM], line[LINE_ROOM], *name, *value;
    FILE *file = open_file(directory);
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (read_line(line, &name, &value) == LINE_SECTION)
            each(name, user);
    if (file != NULL)
        fclose(file);
}
