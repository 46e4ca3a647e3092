#include "transport/ssh_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VARIABLE_NAME_MAX 128

struct output {
    char *text;
    size_t size;
    size_t len;
    bool good;
};

static void put(struct output *out, const char *text)
{
    size_t len = text != NULL ? strlen(text) : 0;

    if (text == NULL || len >= out->size - out->len) {
        out->good = false;
        return;
    }
    memcpy(out->text + out->len, text, len + 1);
    out->len += len;
}

static void put_char(struct output *out, char c)
{
    const char text[] = {c, '\0'};

    put(out, text);
}

static void put_number(struct output *out, uint32_t number)
{
    char digits[16];

    snprintf(digits, sizeof(digits), "%u", (unsigned)number);
    put(out, digits);
}

static void put_short_host(struct output *out, const char *host)
{
    char name[256];

    snprintf(name, sizeof(name), "%.*s", (int)strcspn(host, "."), host);
    put(out, name);
}

static void put_token(struct output *out, char token, const struct shp_ssh_config *config,
                      const struct shp_ssh_tokens *tokens)
{
    switch (token) {
    case '%':
        put(out, "%");
        break;
    case 'd':
        put(out, tokens->home);
        break;
    case 'h':
        put(out, config->hostname);
        break;
    case 'i':
        put_number(out, tokens->uid);
        break;
    case 'k':
        put(out, config->host_key_alias != NULL ? config->host_key_alias : config->original_host);
        break;
    case 'L':
        put_short_host(out, tokens->local_host);
        break;
    case 'l':
        put(out, tokens->local_host);
        break;
    case 'n':
        put(out, config->original_host);
        break;
    case 'p':
        put_number(out, config->port);
        break;
    case 'r':
        put(out, config->user);
        break;
    case 'u':
        put(out, tokens->local_user);
        break;
    default: /* %C and what later versions bring */
        out->good = false;
    }
}

/* "${NAME}": returns what follows it. */
static const char *put_variable(struct output *out, const char *value)
{
    const char *end = strchr(value, '}');
    char name[VARIABLE_NAME_MAX];

    if (end == NULL || (size_t)(end - value - 2) >= sizeof(name)) {
        out->good = false;
        return value + 1;
    }
    snprintf(name, sizeof(name), "%.*s", (int)(end - value - 2), value + 2);
    put(out, getenv(name));
    return end + 1;
}

bool shp_ssh_config_expand(char *out_text, size_t size, const char *value,
                           const struct shp_ssh_config *config, const struct shp_ssh_tokens *tokens)
{
    struct output out = {.text = out_text, .size = size, .good = size > 0};

    if (size > 0)
        out_text[0] = '\0';
    if (value[0] == '~') {
        if (value[1] != '/' && value[1] != '\0')
            return false; /* another account's home */
        put(&out, tokens->home);
        value++;
    }
    while (*value != '\0' && out.good) {
        if (value[0] == '%' && value[1] != '\0') {
            put_token(&out, value[1], config, tokens);
            value += 2;
        } else if (value[0] == '$' && value[1] == '{') {
            value = put_variable(&out, value);
        } else {
            put_char(&out, *value++);
        }
    }
    return out.good;
}
