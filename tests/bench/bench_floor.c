/*
 * What the path cannot beat, in plain blocking C, and the stand-in for Herdr's socket that both
 * sides of a comparison call.
 *
 *   bench_floor serve <socket>   one line in, one line out per connection, as Herdr does
 *   bench_floor source           a number line in, that many bytes out (far end of an ssh)
 *   bench_floor drive            commands, see main
 */
#include <errno.h>
#include <stdbool.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/bench_command.h"

#define LINE_BYTES 200
#define BLOCK_BYTES 65536

extern char **environ;

static void write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t wrote = write(fd, bytes, len);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            bench_die("write", strerror(errno));
        bytes += wrote;
        len -= (size_t)wrote;
    }
}

static void read_all(int fd, char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t got = read(fd, bytes, len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            bench_die("read", got == 0 ? "the peer ended" : strerror(errno));
        bytes += got;
        len -= (size_t)got;
    }
}

/* Until a newline at the end of what came. */
static size_t read_line(int fd, char *bytes, size_t size)
{
    size_t len = 0;
    while (len < size) {
        ssize_t got = read(fd, bytes + len, size - len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return 0;
        len += (size_t)got;
        if (bytes[len - 1] == '\n')
            return len;
    }
    return 0;
}

static struct sockaddr_un address_of(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address.sun_path))
        bench_die(path, "too long for a unix socket");
    memcpy(address.sun_path, path, strlen(path));
    return address;
}

/* ---- the stand-in for Herdr ---------------------------------------------------------------- */

/* {"id":"shepherdr","result":{"pad":"xxx"}} and a newline: bytes long all together. */
static char *answer_new(size_t bytes)
{
    static const char head[] = "{\"id\":\"shepherdr\",\"result\":{\"pad\":\"";
    static const char tail[] = "\"}}\n";
    char *answer = malloc(bytes);
    if (!answer || bytes < sizeof(head) + sizeof(tail))
        bench_die("answer", "no memory, or too short");
    memset(answer, 'x', bytes);
    memcpy(answer, head, sizeof(head) - 1);
    memcpy(answer + bytes - (sizeof(tail) - 1), tail, sizeof(tail) - 1);
    return answer;
}

/* A long answer goes out of a process of its own, so that short calls never wait behind it. */
static void serve_one(int fd, const char *small)
{
    static char line[BLOCK_BYTES];
    size_t len = read_line(fd, line, sizeof(line) - 1);
    line[len] = 0;
    const char *wanted = strstr(line, "\"bytes\":");
    if (len == 0)
        return;
    if (!wanted) {
        write_all(fd, small, LINE_BYTES);
        return;
    }
    size_t bytes = strtoul(wanted + strlen("\"bytes\":"), NULL, 10);
    if (fork() == 0) {
        char *answer = answer_new(bytes);
        write_all(fd, answer, bytes);
        _exit(0);
    }
}

static int serve(const char *path)
{
    struct sockaddr_un address = address_of(path);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    unlink(path);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(listener, 128) != 0)
        bench_die(path, strerror(errno));
    signal(SIGCHLD, SIG_IGN);
    char *small = answer_new(LINE_BYTES);
    puts("{\"listening\":true}");
    fflush(stdout);
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            continue;
        serve_one(fd, small);
        close(fd);
    }
}

static int source(void)
{
    static char block[BLOCK_BYTES];
    char line[32];
    memset(block, 'x', sizeof(block));
    while (read_line(0, line, sizeof(line)) > 0) {
        size_t left = strtoul(line, NULL, 10);
        while (left > 0) {
            size_t part = left < sizeof(block) ? left : sizeof(block);
            write_all(1, block, part);
            left -= part;
        }
    }
    return 0;
}

/* ---- floors -------------------------------------------------------------------------------- */

struct child {
    pid_t pid;
    int in;  /* what we write to */
    int out; /* what we read from */
};

/* In a session of its own, as the transport starts ssh: the kernel shares the CPU among sessions.
 */
static struct child child_start(char *const argv[])
{
    struct child child;
    int to[2], from[2];
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0)
        bench_die("pipe", strerror(errno));
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to[0], 0);
    posix_spawn_file_actions_adddup2(&actions, from[1], 1);
    if (posix_spawnp(&child.pid, argv[0], &actions, &attributes, argv, environ) != 0)
        bench_die(argv[0], "cannot be started");
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(to[0]);
    close(from[1]);
    child.in = to[1];
    child.out = from[0];
    return child;
}

static void child_end(struct child *child, bool must_succeed)
{
    int status = 0;
    close(child->in);
    close(child->out);
    waitpid(child->pid, &status, 0);
    if (must_succeed && status != 0)
        bench_die("child", "ended with an error");
}

/* From start to end of the program. */
static void run_program(char *const argv[], struct bench_samples *samples)
{
    uint64_t start = bench_now_ns();
    struct child child = child_start(argv);
    child_end(&child, true);
    bench_samples_add(samples, bench_now_ns() - start);
}

/* All of them at once, from the first start to the last end. */
static void run_together(char *const argv[], long count, struct bench_samples *samples)
{
    uint64_t start = bench_now_ns();
    struct child *children = calloc((size_t)count, sizeof(*children));
    if (!children)
        bench_die("together", "no memory");
    for (long i = 0; i < count; i++)
        children[i] = child_start(argv);
    for (long i = 0; i < count; i++)
        child_end(&children[i], true);
    free(children);
    bench_samples_add(samples, bench_now_ns() - start);
}

/* From start of the program to its first line, which must hold word. */
static void run_ready(char *const argv[], const char *word, struct bench_samples *samples)
{
    char text[1024];
    uint64_t start = bench_now_ns();
    struct child child = child_start(argv);
    size_t len = 0;
    do {
        ssize_t got = read(child.out, text + len, sizeof(text) - 1 - len);
        if (got <= 0)
            bench_die(argv[0], "no ready line");
        len += (size_t)got;
        text[len] = 0;
    } while (!strstr(text, word));
    bench_samples_add(samples, bench_now_ns() - start);
    child_end(&child, false);
}

static void call_socket(const struct sockaddr_un *address, const char *line)
{
    char answer[LINE_BYTES];
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0)
        bench_die(address->sun_path, strerror(errno));
    write_all(fd, line, LINE_BYTES);
    read_all(fd, answer, sizeof(answer));
    close(fd);
}

static void call_echo(const struct child *echo, const char *line)
{
    char answer[LINE_BYTES];
    write_all(echo->in, line, LINE_BYTES);
    read_all(echo->out, answer, sizeof(answer));
}

static void pull(const struct child *from, size_t bytes)
{
    static char block[BLOCK_BYTES];
    char line[32];
    int len = snprintf(line, sizeof(line), "%zu\n", bytes);
    write_all(from->in, line, (size_t)len);
    while (bytes > 0) {
        size_t part = bytes < sizeof(block) ? bytes : sizeof(block);
        read_all(from->out, block, part);
        bytes -= part;
    }
}

/*
 * run N argv...          start to end, N times
 * together N argv...     N at once, first start to last end
 * ready N WORD argv...   start to the line with WORD
 * open argv...           start the far end for echo, floor and pull; one byte must come back
 * echo N | unix N PATH | floor N PATH   200 bytes: over the far end, over a fresh socket, both
 * pull N BYTES           bytes from a far end that runs `source`
 * shut                   end the far end
 */
static int drive(void)
{
    static char text[BLOCK_BYTES];
    char line[LINE_BYTES];
    struct bench_command command;
    struct bench_samples samples = {0};
    struct child far = {0};
    memset(line, 'x', sizeof(line));
    line[LINE_BYTES - 1] = '\n';
    while (fgets(text, sizeof(text), stdin)) {
        bench_command_split(&command, text);
        const char *name = command.words > 0 ? command.word[0] : "";
        long count = bench_command_number(&command, 1);
        bench_samples_start(&samples, (size_t)count);
        if (strcmp(name, "open") == 0)
            far = child_start(command.word + 1);
        if (strcmp(name, "shut") == 0)
            child_end(&far, false);
        if (strcmp(name, "together") == 0) {
            run_together(command.word + 2, count, &samples);
            count = 0;
        }
        for (long i = 0; i < count; i++) {
            struct sockaddr_un address = {0};
            if (strcmp(name, "unix") == 0 || strcmp(name, "floor") == 0)
                address = address_of(command.word[2]);
            uint64_t start = bench_now_ns();
            if (strcmp(name, "run") == 0) {
                run_program(command.word + 2, &samples);
                continue;
            }
            if (strcmp(name, "ready") == 0) {
                run_ready(command.word + 3, command.word[2], &samples);
                continue;
            }
            if (strcmp(name, "echo") == 0 || strcmp(name, "floor") == 0)
                call_echo(&far, line);
            if (strcmp(name, "unix") == 0 || strcmp(name, "floor") == 0)
                call_socket(&address, line);
            if (strcmp(name, "pull") == 0)
                pull(&far, (size_t)bench_command_number(&command, 2));
            bench_samples_add(&samples, bench_now_ns() - start);
        }
        bench_samples_print(&samples);
    }
    free(samples.ns);
    return 0;
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    if (argc == 3 && strcmp(argv[1], "serve") == 0)
        return serve(argv[2]);
    if (argc == 2 && strcmp(argv[1], "source") == 0)
        return source();
    if (argc == 2 && strcmp(argv[1], "drive") == 0)
        return drive();
    bench_die("bench_floor", "usage: serve <socket> | source | drive");
}
