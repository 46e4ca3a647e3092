/*
 * A slow line between two network namespaces, for kernels without netem.
 *
 *     slow_line BYTES_PER_S DELAY_MS LOSS_PER_MILLE QUEUE_BYTES SEED
 *
 * Makes two namespaces with a TUN device each (10.0.0.1 and 10.0.0.2) and passes IPv4 packets
 * between them: each direction sends BYTES_PER_S, takes DELAY_MS more, loses LOSS_PER_MILLE of
 * 1000 packets by a generator that SEED starts, and drops what does not fit its queue. When the line
 * is up it prints {"namespaces":[path, path],"addresses":[...]}; nsenter --net=path enters one. The
 * line lives until standard input ends. Exit 2: this system does not let us, standard error says
 * why.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PACKET_BYTES_MAX 2048
#define PACKETS_MAX 4096
#define DEVICE "line0"

struct packet {
    uint64_t due_ns;
    size_t len;
    uint8_t bytes[PACKET_BYTES_MAX];
};

/* What one side sent and the other has not got. A ring, in order of due times. */
struct direction {
    struct packet packets[PACKETS_MAX];
    size_t first;
    size_t count;
    uint64_t free_ns; /* when the last packet has left the sender */
};

struct line {
    uint64_t bytes_per_s;
    uint64_t delay_ns;
    uint64_t queue_ns; /* as long as QUEUE_BYTES take */
    uint32_t loss_per_mille;
    uint64_t chance;
    int tun[2];
    int name_space[2];
    struct direction to[2];
};

static const char *const addresses[2] = {"10.0.0.1", "10.0.0.2"};

static void give_up(const char *what)
{
    fprintf(stderr, "slow_line: %s: %s\n", what, strerror(errno));
    exit(2);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- namespaces ---------------------------------------------------------------------------- */

static void set_up(int control, const char *name)
{
    struct ifreq request = {0};
    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    if (ioctl(control, SIOCSIFFLAGS, &request) != 0)
        give_up(name);
}

static void set_address(int control, unsigned long what, const char *text)
{
    struct ifreq request = {0};
    struct sockaddr_in address = {.sin_family = AF_INET};
    snprintf(request.ifr_name, sizeof(request.ifr_name), DEVICE);
    inet_pton(AF_INET, text, &address.sin_addr);
    memcpy(&request.ifr_addr, &address, sizeof(address));
    if (ioctl(control, what, &request) != 0)
        give_up(text);
}

static int open_tun(void)
{
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    snprintf(request.ifr_name, sizeof(request.ifr_name), DEVICE);
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        give_up("/dev/net/tun");
    if (ioctl(fd, TUNSETIFF, &request) != 0)
        give_up("TUNSETIFF");
    return fd;
}

static void make_side(struct line *line, int side)
{
    if (unshare(CLONE_NEWNET) != 0)
        give_up("a new network namespace");
    line->name_space[side] = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (line->name_space[side] < 0)
        give_up("/proc/self/ns/net");
    line->tun[side] = open_tun();
    int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (control < 0)
        give_up("socket");
    set_up(control, "lo");
    set_address(control, SIOCSIFADDR, addresses[side]);
    set_address(control, SIOCSIFNETMASK, "255.255.255.0");
    set_up(control, DEVICE);
    close(control);
}

/* ---- packets ------------------------------------------------------------------------------- */

static bool is_lost(struct line *line)
{
    line->chance ^= line->chance >> 12;
    line->chance ^= line->chance << 25;
    line->chance ^= line->chance >> 27;
    return (line->chance * UINT64_C(2685821657736338717) >> 33) % 1000 < line->loss_per_mille;
}

/* Everything that one side has sent meanwhile. */
static void take(struct line *line, int from)
{
    struct direction *to = &line->to[1 - from];
    uint8_t bytes[PACKET_BYTES_MAX];
    ssize_t got;
    while ((got = read(line->tun[from], bytes, sizeof(bytes))) > 0) {
        size_t len = (size_t)got;
        uint64_t now = now_ns();
        uint64_t begins = to->free_ns > now ? to->free_ns : now;
        bool full = to->count == PACKETS_MAX || begins - now > line->queue_ns;
        if (bytes[0] >> 4 != 4 || full || is_lost(line))
            continue;
        struct packet *packet = &to->packets[(to->first + to->count++) % PACKETS_MAX];
        to->free_ns = begins + len * 1000000000u / line->bytes_per_s;
        packet->due_ns = to->free_ns + line->delay_ns;
        packet->len = len;
        memcpy(packet->bytes, bytes, len);
    }
}

/* What is due; returns when the next one is, UINT64_MAX: none. */
static uint64_t give(struct line *line, int side)
{
    struct direction *to = &line->to[side];
    for (; to->count > 0; to->count--) {
        const struct packet *packet = &to->packets[to->first];
        if (packet->due_ns > now_ns())
            return packet->due_ns;
        /* A device without room loses the packet, as a line would. */
        ssize_t ignored = write(line->tun[side], packet->bytes, packet->len);
        (void)ignored;
        to->first = (to->first + 1) % PACKETS_MAX;
    }
    return UINT64_MAX;
}

static bool input_ended(void)
{
    char bytes[256];
    return read(STDIN_FILENO, bytes, sizeof(bytes)) <= 0;
}

static void run(struct line *line)
{
    struct pollfd polls[3] = {
        {.fd = line->tun[0], .events = POLLIN},
        {.fd = line->tun[1], .events = POLLIN},
        {.fd = STDIN_FILENO, .events = POLLIN},
    };
    for (;;) {
        uint64_t a = give(line, 0);
        uint64_t b = give(line, 1);
        uint64_t due = a < b ? a : b;
        uint64_t now = now_ns();
        uint64_t wait_ns = due > now ? due - now : 0;
        struct timespec wait = {.tv_sec = (time_t)(wait_ns / 1000000000u),
                                .tv_nsec = (long)(wait_ns % 1000000000u)};
        if (ppoll(polls, 3, due == UINT64_MAX ? NULL : &wait, NULL) < 0 && errno != EINTR)
            give_up("ppoll");
        if (polls[2].revents != 0 && input_ended())
            return;
        for (int side = 0; side < 2; side++)
            take(line, side);
    }
}

static uint64_t number(const char *text)
{
    char *end;
    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != 0) {
        fprintf(stderr, "slow_line: %s is no number\n", text);
        exit(1);
    }
    return value;
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: slow_line BYTES_PER_S DELAY_MS LOSS_PER_MILLE QUEUE_BYTES SEED\n");
        return 1;
    }
    struct line *line = calloc(1, sizeof(*line));
    if (!line)
        give_up("memory");
    line->bytes_per_s = number(argv[1]);
    line->delay_ns = number(argv[2]) * 1000000u;
    line->loss_per_mille = (uint32_t)number(argv[3]);
    line->chance = number(argv[5]) * UINT64_C(0x9e3779b97f4a7c15) + 1;
    if (line->bytes_per_s == 0) {
        fprintf(stderr, "slow_line: a line without rate\n");
        return 1;
    }
    line->queue_ns = number(argv[4]) * 1000000000u / line->bytes_per_s;
    for (int side = 0; side < 2; side++)
        make_side(line, side);
    printf(
        "{\"namespaces\":[\"/proc/%ld/fd/%d\",\"/proc/%ld/fd/%d\"],\"addresses\":[\"%s\",\"%s\"]}"
        "\n",
        (long)getpid(), line->name_space[0], (long)getpid(), line->name_space[1], addresses[0],
        addresses[1]);
    fflush(stdout);
    run(line);
    free(line);
    return 0;
}
