/* Any answer line in any pieces: a roster that is JSON, or an error with a code and a cause. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/json_check.h"
#include "protocol/messages.h"
#include "remote-helper/roster.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct roster *roster;
    struct shp_error error = {0};
    struct json_out out;
    if (size == 0)
        return 0;
    size_t piece = (size_t)data[0] + 1;
    data++;
    size--;
    require(roster_new(&roster) == 0);
    for (size_t at = 0; at < size; at += piece)
        if (roster_feed(roster, data + at, size - at < piece ? size - at : piece) != 0)
            break;
    if (roster_finish(roster, &error) == 0) {
        json_out_init(&out, SHP_LIMIT_MESSAGE_BYTES_MAX);
        roster_write(roster, &out);
        require(json_out_status(&out) == 0);
        require(shp_json_check_object(out.data, out.len, 4) == 0);
        json_out_fini(&out);
    } else {
        require(error.code != 0 && error.cause[0] != '\0');
    }
    roster_free(roster);
    return 0;
}
