#include "server/http/prefer.h"

#include <string.h>
#include <strings.h>

#include "proto/number.h"

/* Longer than every word that the daemon knows. */
enum { WORD_MAX = 32 };

/* The end of an element: the next comma outside of quotes, or the end of the text. */
static const char *element_end(const char *text)
{
    bool quoted = false;
    for (; *text != '\0' && (quoted || *text != ','); text++) {
        if (*text == '"')
            quoted = !quoted;
        else if (quoted && *text == '\\' && text[1] != '\0')
            text++;
    }
    return text;
}

/* Reads the word at `text`, which ends before `end` or one of the characters `stops`, without the
 * quotes around it. Returns false if the word is longer than every word that the daemon knows. */
static bool read_word(const char *text, const char *end, const char *stops, char word[WORD_MAX])
{
    size_t length = strcspn(text, stops);
    if (length > (size_t)(end - text))
        length = (size_t)(end - text);
    if (length >= 2 && text[0] == '"' && text[length - 1] == '"') {
        text++;
        length -= 2;
    }
    if (length >= WORD_MAX)
        return false;
    memcpy(word, text, length);
    word[length] = '\0';
    return true;
}

static const char *skip_space(const char *text)
{
    return text + strspn(text, " \t");
}

static void read_element(struct preferences *preferences, const char *text, const char *end)
{
    char name[WORD_MAX], value[WORD_MAX] = "";
    text = skip_space(text);
    if (!read_word(text, end, " \t=;,", name))
        return;
    const char *next = skip_space(text + strlen(name));
    if (next < end && *next == '=' && !read_word(skip_space(next + 1), end, " \t;,", value))
        return;
    if (strcasecmp(name, "respond-async") == 0)
        preferences->respond_async = true;
    else if (strcasecmp(name, "wait") == 0 && !preferences->has_wait)
        preferences->has_wait = number_u64(value, &preferences->wait_s);
}

void prefer_read(struct preferences *preferences, const char *value)
{
    while (*value != '\0') {
        const char *end = element_end(value);
        read_element(preferences, value, end);
        value = end + (*end == ',');
    }
}
