/* Any text as a receiver's descriptor: refused, or whole and within its bounds. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "remote-helper/receivers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct receiver receiver = {0};
    int status = receiver_parse(&receiver, (const char *)data, size);
    if (status != 0) {
        require(receiver.tree == NULL);
        return 0;
    }
    require(receiver.socket[0] == '/' && strlen(receiver.socket) < 108);
    require(receiver.pi_session_id[0] != '\0' && strlen(receiver.pi_session_id) <= 128);
    require(receiver.token[0] != '\0' && receiver.host != NULL && receiver.agent_dir != NULL);
    require(receiver.pid >= 1 && receiver.start >= -1);
    require(receiver.protocol_min >= 0 && receiver.protocol_min <= receiver.protocol_max);
    (void)receiver_socket_good(&receiver);
    receiver_fini(&receiver);
    return 0;
}
