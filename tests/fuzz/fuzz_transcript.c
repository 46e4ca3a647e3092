/* A whole session file of any bytes: the walk ends, and what comes out is UTF-8 of the length told.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/utf8.h"
#include "remote-helper/transcript.h"

#define TEXT_BYTES_MAX 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void read_text(struct transcript *transcript)
{
    const struct transcript_result *result = transcript_result(transcript);
    uint64_t total = 0;
    const char *piece;
    size_t len;
    for (;;) {
        int status = transcript_text(transcript, &piece, &len);
        if (status == SHP_ERR_AGAIN)
            continue;
        require(status == 0);
        if (len == 0)
            break;
        require(shp_utf8_valid((const uint8_t *)piece, len));
        total += len;
    }
    require(total <= TEXT_BYTES_MAX);
    require(result->truncated || total == result->text_bytes);
    require(!result->truncated || total <= result->text_bytes);
}

static void read_file(const char *path, const char *leaf)
{
    struct transcript *transcript;
    struct shp_error error;
    enum transcript_status status;
    if (transcript_open(&transcript, path, leaf, TEXT_BYTES_MAX, &error) != 0)
        return;
    do
        status = transcript_step(transcript, &error);
    while (status == TRANSCRIPT_MORE);
    require(status == TRANSCRIPT_DONE);
    const struct transcript_result *result = transcript_result(transcript);
    require(shp_utf8_valid((const uint8_t *)result->error_message, strlen(result->error_message)));
    require(shp_utf8_valid((const uint8_t *)result->entry_id, strlen(result->entry_id)));
    read_text(transcript);
    transcript_free(transcript);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    int fd = memfd_create("session", 0);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    read_file(path, NULL);
    read_file(path, "a1");
    close(fd);
    return 0;
}
