/*
 * Fuzz target: arguments of an agents call. The input is a JSON text, then, after a 0xff byte if
 * there is one, the message that travels beside it.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "controller/agents/call_internal.h"
#include "protocol/messages.h"

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check_accepted(const struct shp_call *call)
{
    require(shp_action_supported(call->action));
    const uint8_t *args = shp_action_specs[call->action].fields;
    for (; *args != SHP_ARG_END; args++) {
        bool needed = (*args & SHP_ARG_OPTIONAL) == 0;
        if (SHP_ARG_ID_OF(*args) == SHP_ARG_MESSAGE && needed)
            require(call->message != NULL);
        if (SHP_ARG_ID_OF(*args) == SHP_ARG_TARGET && needed)
            require(call->target != NULL && call->target[0] != '\0');
    }
    require(call->lines >= 1 && call->lines <= SHP_CALL_LINES_MAX);
    if (call->message != NULL) {
        size_t len = strlen(call->message);
        require(len > 0 && len <= SHP_LIMIT_MESSAGE_TEXT_BYTES_MAX);
        require(shp_utf8_valid((const uint8_t *)call->message, len));
    }
    if (call->name != NULL)
        require(shp_name_valid(call->name));
    if (call->label != NULL) {
        char name[33];
        require(strlen(call->label) <= 64);
        shp_name_derive(name, call->label, (unsigned char)call->label[0]);
        require(shp_name_valid(name));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *message = NULL;
    require(text != NULL);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    char *split = size > 0 ? memchr(text, 0xff, size) : NULL;
    if (split != NULL) {
        *split = '\0';
        message = split + 1;
    }
    cJSON *object = cJSON_Parse(text);
    struct shp_call call;
    struct shp_error error = {0};
    int err = shp_call_parse(&call, object, message, &error);
    if (err == 0) {
        check_accepted(&call);
        shp_call_fini(&call);
    } else {
        require(error.code != 0 && error.cause[0] != '\0');
    }
    cJSON_Delete(object);
    /* Any bytes make a name. */
    char name[33];
    shp_name_derive(name, text, (unsigned)size);
    require(shp_name_valid(name));
    free(text);
    return 0;
}
