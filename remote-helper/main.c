/*
 * The program that runs on every machine: `serve <marker>` for a controller, `serve --ssh` as the
 * forced command of a key, `self-check <digest>` for the installer. Standard output is the wire,
 * standard error is for people.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "base/id.h"
#include "protocol/messages.h"
#include "remote-helper/helper.h"
#include "remote-helper/sweep.h"
#include "shp_build_id.h"
#include "transport/transport.h"

#define EXIT_USAGE 2

static void say(const char *text)
{
    static const char name[] = "shepherdr-helper: ";
    ssize_t ignored = write(STDERR_FILENO, name, sizeof name - 1);
    ignored = write(STDERR_FILENO, text, strlen(text));
    ignored = write(STDERR_FILENO, "\n", 1);
    (void)ignored;
}

static int write_all(int fd, const char *text, size_t len)
{
    while (len > 0) {
        ssize_t wrote = write(fd, text, len);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return SHP_ERR_IO;
        text += wrote;
        len -= (size_t)wrote;
    }
    return 0;
}

/* ---- self-check --------------------------------------------------------------------------- */

static int hash_self(const char *program, uint8_t digest[crypto_hash_sha256_BYTES])
{
    uint8_t block[16384];
    crypto_hash_sha256_state state;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        fd = open(program, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return SHP_ERR_IO;
    crypto_hash_sha256_init(&state);
    ssize_t got;
    while ((got = read(fd, block, sizeof block)) > 0 || (got < 0 && errno == EINTR))
        if (got > 0)
            crypto_hash_sha256_update(&state, block, (size_t)got);
    close(fd);
    crypto_hash_sha256_final(&state, digest);
    return got < 0 ? SHP_ERR_IO : 0;
}

static int self_check(const char *program, const char *wanted_hex)
{
    uint8_t wanted[crypto_hash_sha256_BYTES];
    uint8_t digest[crypto_hash_sha256_BYTES];
    if (shp_hex_decode(wanted, sizeof wanted, wanted_hex, strlen(wanted_hex)) != 0) {
        say("self-check: the digest is not 64 hex digits");
        return EXIT_USAGE;
    }
    if (hash_self(program, digest) != 0) {
        say("self-check: this program's file cannot be read");
        return EXIT_FAILURE;
    }
    if (memcmp(digest, wanted, sizeof digest) != 0) {
        say("self-check: the file has another digest");
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}

/* ---- serve -------------------------------------------------------------------------------- */

#define SIGNALS 3

struct server {
    uv_loop_t loop;
    uv_signal_t signals[SIGNALS];
    struct helper helper;
};

static void on_signal(uv_signal_t *handle, int number)
{
    struct server *server = handle->data;
    (void)number;
    helper_close(&server->helper, SHP_CODE_SHUTTING_DOWN, "ended by a signal");
}

/* Who started us, and what that means. */
enum start {
    START_INSTALLED, /* the installer's line: the directory is ours to keep tidy */
    START_LOOK,      /* whoever only looks at the machine wants nothing removed */
    START_FORCED,    /* command= of a key: the file is a person's, and so is its update */
};

/* A line that the controller waits for in what the shell prints. */
static int say_line(const char *marker, const char *text)
{
    const char *const parts[] = {"\n@@SHP1 ", marker, " ", text, "\n"};
    char line[8 + SHP_MARKER_HEX + 1 + 64 + sizeof SHP_BUILD_ID];
    size_t at = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        size_t len = strlen(parts[i]);
        if (at + len > sizeof line)
            return SHP_ERR_LIMIT;
        memcpy(line + at, parts[i], len);
        at += len;
    }
    return write_all(STDOUT_FILENO, line, at);
}

/* Says what is wrong. */
static int open_helper(struct server *server, const char *marker)
{
    static const int numbers[SIGNALS] = {SIGTERM, SIGINT, SIGHUP};
    struct shp_transport *transport = NULL;
    int status = shp_transport_stdio_new(&transport, &server->loop, STDIN_FILENO, STDOUT_FILENO);
    if (status != 0) {
        say("serve: standard input or output is not a pipe or socket");
        return status;
    }
    status = helper_open(&server->helper, &server->loop, transport, marker, SHP_BUILD_ID);
    if (status != 0) {
        shp_transport_free(transport);
        say(status == SHP_ERR_INVALID ? "serve: HOME is not an absolute path"
                                      : shp_strerror(status));
        return status;
    }
    for (size_t i = 0; i < SIGNALS; i++) {
        uv_signal_init(&server->loop, &server->signals[i]);
        server->signals[i].data = server;
        uv_unref((uv_handle_t *)&server->signals[i]);
        uv_signal_start(&server->signals[i], on_signal, numbers[i]);
    }
    return 0;
}

static int serve(const char *program, const char *marker, enum start start)
{
    static struct server server;
    if (strlen(marker) != SHP_MARKER_HEX || !shp_hex_valid(marker, SHP_MARKER_HEX)) {
        say("serve: the marker is not 32 hex digits");
        return EXIT_USAGE;
    }
    signal(SIGPIPE, SIG_IGN);
    umask(077);
    /* Ready is said with all in hand that a limit of the account may refuse. */
    if (uv_loop_init(&server.loop) != 0) {
        say("serve: no event loop can be made");
        (void)say_line(marker, "FAIL ended 1");
        return EXIT_FAILURE;
    }
    /* No directory of the machine is kept busy by us. */
    const char *ready =
        start == START_FORCED ? "READY " SHP_BUILD_ID " forced" : "READY " SHP_BUILD_ID;
    if (chdir("/") != 0 || say_line(marker, ready) != 0)
        return EXIT_FAILURE;
    if (open_helper(&server, marker) != 0)
        return EXIT_FAILURE;
    server.helper.program = program;
    if (start == START_INSTALLED)
        sweep_programs(program);
    uv_run(&server.loop, UV_RUN_DEFAULT);
    for (size_t i = 0; i < SIGNALS; i++)
        uv_close((uv_handle_t *)&server.signals[i], NULL);
    uv_run(&server.loop, UV_RUN_DEFAULT);
    uv_loop_close(&server.loop);
    const struct shp_error *end = &server.helper.end;
    if (end->code != 0 && end->code != SHP_CODE_LINK_LOST && end->code != SHP_CODE_SHUTTING_DOWN) {
        say(shp_code_name(end->code));
        if (end->cause[0] != '\0')
            say(end->cause);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}

/*
 * The key of a forced command can run this program and nothing else, whatever its holder asks for:
 * of that command line only the marker at its fixed place is taken.
 */
static int serve_forced(const char *program)
{
    static const char begin[] = "exec sh -c 'k=";
    const char *asked = getenv("SSH_ORIGINAL_COMMAND");
    char marker[SHP_MARKER_HEX + 1];
    size_t len = asked ? strnlen(asked, sizeof begin + SHP_MARKER_HEX) : 0;
    if (len != sizeof begin + SHP_MARKER_HEX || memcmp(asked, begin, sizeof begin - 1) != 0 ||
        asked[sizeof begin - 1 + SHP_MARKER_HEX] != ';') {
        say("this key serves a shepherdr controller and runs no other command");
        return EXIT_USAGE;
    }
    memcpy(marker, asked + sizeof begin - 1, SHP_MARKER_HEX);
    marker[SHP_MARKER_HEX] = '\0';
    return serve(program, marker, START_FORCED);
}

/* A descriptor of ours must never become number 0, 1 or 2 because it was closed: we write there. */
static void fill_standard_descriptors(void)
{
    int fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO)
        fd = open("/dev/null", O_RDWR);
    if (fd >= 0)
        close(fd);
}

int main(int argc, char **argv)
{
    fill_standard_descriptors();
    if (sodium_init() < 0) {
        say("no random numbers");
        return EXIT_FAILURE;
    }
    if (argc == 3 && strcmp(argv[1], "serve") == 0 && strcmp(argv[2], "--ssh") == 0)
        return serve_forced(argv[0]);
    if (argc == 3 && strcmp(argv[1], "serve") == 0)
        return serve(argv[0], argv[2], START_INSTALLED);
    if (argc == 4 && strcmp(argv[1], "serve") == 0 && strcmp(argv[3], "keep") == 0)
        return serve(argv[0], argv[2], START_LOOK);
    if (argc == 3 && strcmp(argv[1], "self-check") == 0)
        return self_check(argv[0], argv[2]);
    if (argc == 2 && strcmp(argv[1], "--version") == 0)
        return write_all(STDOUT_FILENO, SHP_VERSION " " SHP_BUILD_ID "\n",
                         sizeof SHP_VERSION " " SHP_BUILD_ID "\n" - 1) == 0
                   ? EXIT_SUCCESS
                   : EXIT_FAILURE;
    say("usage: shepherdr-helper serve <marker> [keep] | serve --ssh | self-check <sha256> | "
        "--version");
    return EXIT_USAGE;
}
