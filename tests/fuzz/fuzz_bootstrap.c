/*
 * What a machine answers to the bootstrap: however it is cut, the same result; a failure is a clean
 * error, an upload is exactly the helper that was offered, and nothing is sent before it is asked
 * for.
 *
 * input: u8 size of the pieces, u8 bits (probe, ended), then the stream; the byte 0xff stands for
 * "\n@@SHP1 <marker> ".
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "installer/bootstrap.h"
#include "installer/shell.h"
#include "protocol/messages.h"

#define MARKER "00112233445566778899aabbccddeeff"
#define BUILD "0123456789abcdef"
#define HEAD 2
#define STREAM_MAX 20000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct result {
    enum shp_prelude_status status;
    size_t taken;
    size_t sent;
    struct shp_error error;
};

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check_clean(const char *text)
{
    size_t len = strlen(text);

    for (size_t i = 0; i < len;) {
        size_t bytes = shp_utf8_char((const uint8_t *)text + i, len - i);

        require(bytes > 0 && ((unsigned char)text[i] >= 0x20 || text[i] == '\t'));
        i += bytes;
    }
}

/* What it wants to send must be the helper, in order. */
static void drain(struct shp_prelude *prelude, const struct shp_artifact *helper,
                  struct result *result)
{
    const uint8_t *out;
    size_t len;

    while ((len = prelude->output(prelude->prelude, &out)) > 0) {
        size_t part = len > 3 ? len - len / 2 : len;

        require(result->sent + len <= helper->len);
        require(memcmp(out, helper->content + result->sent, len) == 0);
        prelude->consume(prelude->prelude, part);
        result->sent += part;
    }
}

static struct result answer(const uint8_t *stream, size_t len, size_t piece, unsigned bits)
{
    static uint8_t content[] = "the helper that is offered to this machine";
    static struct shp_artifacts artifacts = {
        .items = {{.system = "Linux x86_64",
                   .name = "helper-linux-x86_64-00112233445566778899aabbccddeeff",
                   .digest = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
                   .content = content,
                   .len = sizeof(content)}},
        .len = 1,
    };
    struct shp_bootstrap_options options = {
        .artifacts = &artifacts,
        .marker = MARKER,
        .build_id = BUILD,
        .probe_only = (bits & 1) != 0,
    };
    struct result result = {.status = SHP_PRELUDE_MORE};
    struct shp_prelude prelude;
    char *command;

    require(shp_bootstrap_new(&prelude, &command, &options) == 0);
    require(strchr(command, '\n') == NULL);
    drain(&prelude, &artifacts.items[0], &result);
    require(result.sent == 0);
    for (size_t at = 0; at < len && result.status == SHP_PRELUDE_MORE; at = result.taken) {
        size_t part = len - at < piece ? len - at : piece;
        size_t taken = part;

        result.status =
            prelude.feed(prelude.prelude, stream + at, part, &taken, false, &result.error);
        require(taken <= part && (taken == part || result.status != SHP_PRELUDE_MORE));
        result.taken = at + taken;
        drain(&prelude, &artifacts.items[0], &result);
    }
    if (result.status == SHP_PRELUDE_MORE) {
        size_t taken = 0;

        result.status =
            prelude.feed(prelude.prelude, NULL, 0, &taken, (bits & 2) != 0, &result.error);
        require(result.status == SHP_PRELUDE_FAILED);
    }
    prelude.free(prelude.prelude);
    free(command);
    return result;
}

/* The same bytes as words of a shell: an error stays one that can be shown. */
static void explain(const uint8_t *stream, size_t len)
{
    static char text[STREAM_MAX + 1];
    struct shp_error error;
    bool unsupported;

    memcpy(text, stream, len);
    text[len] = '\0';
    shp_shell_hide_command(text);
    require(strlen(text) <= len);
    shp_error_set(&error, SHP_CODE_SHELL_REFUSED, NULL, "start helper", "it ended");
    unsupported = shp_shell_explain(&error, text);
    require(error.code == (unsupported ? SHP_CODE_SHELL_UNSUPPORTED : SHP_CODE_SHELL_REFUSED));
    require(error.cause[0] != '\0' && error.step[0] != '\0');
    for (const char *c = error.cause; *c != '\0'; c++)
        require((unsigned char)*c >= ' ' || *c == '\t');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char pattern[] = "\n@@SHP1 " MARKER " ";
    static uint8_t stream[STREAM_MAX];
    struct result whole;
    struct result pieces;
    size_t len = 0;

    if (size < HEAD)
        return 0;
    for (size_t i = HEAD; i < size && len + sizeof(pattern) < STREAM_MAX; i++) {
        if (data[i] == 0xff) {
            memcpy(stream + len, pattern, sizeof(pattern) - 1);
            len += sizeof(pattern) - 1;
        } else {
            stream[len++] = data[i];
        }
    }
    explain(stream, len);
    whole = answer(stream, len, STREAM_MAX, data[1]);
    pieces = answer(stream, len, data[0] == 0 ? 1 : data[0], data[1]);
    require(whole.status == pieces.status && whole.error.code == pieces.error.code);
    require(strcmp(whole.error.cause, pieces.error.cause) == 0);
    if (whole.status == SHP_PRELUDE_READY) {
        require(whole.taken == pieces.taken && whole.error.code == 0);
        return 0;
    }
    require(shp_code_name(whole.error.code) != NULL && whole.error.code != 0);
    require(whole.error.cause[0] != '\0' && whole.error.step[0] != '\0');
    check_clean(whole.error.cause);
    return 0;
}
