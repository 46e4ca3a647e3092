#include "tests/support/life_rig.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "protocol/messages.h"
#include "tests/support/processes.h"
#include "tests/support/temp_root.h"

#define GUARD_S 100
#define TURN_MS 2

static void fail_hanging(const struct life *life)
{
    for (size_t i = 0; i < life->len; i++) {
        const struct machine *machine = life->machines[i].machine;
        if (machine)
            fprintf(stderr, "%s: %s, %u connections, retry %d, generation %u, reason %d %s: %s\n",
                    life->machines[i].name, machine_status(machine),
                    life->machines[i].relay.accepted, uv_is_active((uv_handle_t *)&machine->retry),
                    machine->generation, machine->reason.code, machine->reason.step,
                    machine->reason.cause);
    }
    fail_msg("the test hangs");
}

/* time() is not moved by the test. */
static void guard(struct life *life, bool begin)
{
    long long now = (long long)time(NULL);
    if (begin)
        life->guard_s = now + GUARD_S;
    else if (now > life->guard_s)
        fail_hanging(life);
}

void life_configure(struct life *life)
{
    char text[8192];
    int len = 0;
    const char *dir = life->sshd->directory;
    for (size_t i = 0; i < life->len; i++) {
        const struct life_machine *at = &life->machines[i];
        const struct relay *way = at->way ? at->way : &at->relay;
        len += snprintf(text + len, sizeof text - (size_t)len,
                        "Host %s\n HostName %s\n Port %d\n UserKnownHostsFile %s/%s\n"
                        " IdentityFile %s/%s\n",
                        at->name, way->address, way->port, dir,
                        at->known_hosts ? at->known_hosts : "known_life", dir,
                        at->identity ? at->identity : "user");
        assert_true(len > 0 && (size_t)len < sizeof text - 512);
    }
    snprintf(text + len, sizeof text - (size_t)len,
             "Host *\n HostKeyAlias life\n IdentitiesOnly yes\n IdentityAgent none\n"
             " GlobalKnownHostsFile /dev/null\n StrictHostKeyChecking ask\n");
    char *path = temp_path(dir, "life_config");
    temp_write(path, text, strlen(text));
    free(path);
}

static void write_client(struct life *life)
{
    char text[512], path[4096];
    const char *dir = life->sshd->directory;
    snprintf(text, sizeof text,
             "cd '%s' && : > known_none && printf 'life %%s\\n' \"$(cut -d' ' -f1,2 host.pub)\" > "
             "known_life && printf 'life %%s\\n' \"$(cut -d' ' -f1,2 other.pub)\" > known_other",
             dir);
    assert_int_equal(system(text), 0);
    snprintf(text, sizeof text, "#!/bin/sh\nexec /usr/bin/ssh -F '%s/life_config' \"$@\"\n", dir);
    char *program = temp_path(life->rig.program_dir, "ssh");
    temp_write(program, text, strlen(text));
    assert_int_equal(chmod(program, 0700), 0);
    free(program);
    life->path_before = strdup(getenv("PATH"));
    snprintf(path, sizeof path, "%s:%s", life->rig.program_dir, life->path_before);
    setenv("PATH", path, 1);
}

static void write_settings(const struct life *life, const char *transport)
{
    char text[64];
    char *pi = temp_path(life->rig.root, ".pi"), *agent = temp_path(pi, "agent");
    mkdir(pi, 0700);
    mkdir(agent, 0700);
    char *path = temp_path(agent, "pi-shepherdr.json");
    snprintf(text, sizeof text, "{\"transport\":\"%s\"}", transport);
    temp_write(path, text, strlen(text));
    free(path);
    free(agent);
    free(pi);
}

static void on_ready(struct fleet *fleet, const struct shp_error *error, void *user)
{
    (void)fleet;
    if (error)
        fail_msg("catalog: %s", error->cause);
    *(bool *)user = true;
}

void life_open(struct life *life, const char *bin_dir, struct sshd_fixture *sshd,
               const char *transport, size_t len, void (*wait)(uint64_t ms))
{
    char catalog[4096] = "[";
    struct shp_error error = {0};
    bool ready = false;
    *life = (struct life){.sshd = sshd, .len = len, .wait = wait};
    assert_true(len <= LIFE_MACHINES_MAX);
    guard(life, true);
    controller_rig_open(&life->rig, bin_dir);
    for (size_t i = 0; i < len; i++) {
        struct life_machine *at = &life->machines[i];
        relay_open(&at->relay, &life->rig.loop, "127.0.0.1", sshd->port);
        snprintf(at->name, sizeof at->name, "m%zu", i);
        snprintf(at->id, sizeof at->id, "%032zx", i + 1);
        size_t used = strlen(catalog);
        snprintf(catalog + used, sizeof catalog - used,
                 "%s{\"id\":\"%s\",\"label\":\"%s\",\"target\":\"%s\",\"session\":\"default\","
                 "\"enabled\":true}",
                 i ? "," : "", at->id, at->name, at->name);
    }
    strcat(catalog, "]");
    write_client(life);
    life_configure(life);
    write_settings(life, transport);
    controller_rig_catalog(&life->rig, catalog);
    controller_start(&life->rig);
    fleet_ready(life->rig.app->fleet, on_ready, &ready);
    controller_until(&life->rig, &ready);
    for (size_t i = 0; i < len; i++) {
        life->machines[i].machine = fleet_find(life->rig.app->fleet, life->machines[i].id, &error);
        assert_non_null(life->machines[i].machine);
    }
}

/* Clients and helpers name the server's directory; its own sessions do not. */
static bool nothing_is_left(struct life *life)
{
    static pid_t pids[PROCESSES_MAX];
    size_t naming = processes_naming(life->sshd->directory, pids);
    for (size_t i = 0; i < naming; i++)
        if (pids[i] != life->sshd->pid)
            return false;
    return life_sessions(life, NULL) == 0 && life_clients(NULL) == 0;
}

void life_close(struct life *life)
{
    guard(life, true);
    controller_stop(&life->rig);
    for (size_t i = 0; i < life->len; i++)
        relay_close(&life->machines[i].relay);
    LIFE_UNTIL(life, nothing_is_left(life));
    controller_rig_close(&life->rig);
    setenv("PATH", life->path_before, 1);
    free(life->path_before);
}

void life_turn(struct life *life)
{
    guard(life, false);
    controller_linger(&life->rig, TURN_MS);
}

void life_pass(struct life *life)
{
    uint64_t due_ms = UINT64_MAX;
    bool under_way = false;
    uv_update_time(&life->rig.loop);
    for (size_t i = 0; i < life->len; i++) {
        struct machine *machine = life->machines[i].machine;
        under_way |= machine->link && machine->state != MACHINE_CONNECTED;
        if (!uv_is_active((uv_handle_t *)&machine->retry))
            continue;
        uint64_t in_ms = uv_timer_get_due_in(&machine->retry);
        due_ms = in_ms < due_ms ? in_ms : due_ms;
    }
    if (!under_way && due_ms != UINT64_MAX)
        life->wait(due_ms);
    life_turn(life);
}

void life_steps(struct life *life, uint64_t ms)
{
    for (; ms > 0; ms -= ms < LIFE_STEP_MS ? ms : LIFE_STEP_MS) {
        life->wait(ms < LIFE_STEP_MS ? ms : LIFE_STEP_MS);
        life_turn(life);
    }
}

bool life_connected(const struct life *life)
{
    for (size_t i = 0; i < life->len; i++)
        if (life->machines[i].machine->state != MACHINE_CONNECTED)
            return false;
    return true;
}

void life_connect(struct life *life)
{
    guard(life, true);
    for (size_t i = 0; i < life->len; i++)
        machine_want(life->machines[i].machine, true);
    LIFE_PASS_UNTIL(life, life_connected(life));
}

void life_cut(struct life *life, size_t i)
{
    struct machine *machine = life->machines[i].machine;
    uint32_t generation = machine->generation;
    relay_cut(life->machines[i].way ? life->machines[i].way : &life->machines[i].relay);
    LIFE_UNTIL(life, machine->state != MACHINE_CONNECTED || machine->generation != generation);
}

static void on_answer(struct machine *machine, const struct machine_answer *from, void *user)
{
    (void)machine;
    struct life_answer *answer = user;
    answer->count++;
    answer->code = from->error ? from->error->code : 0;
    answer->outcome = from->error ? (int)from->error->outcome : -1;
    answer->bulk_len = from->error ? 0 : from->bulk_len;
    snprintf(answer->cause, sizeof answer->cause, "%s", from->error ? from->error->cause : "");
}

void life_ask(struct life *life, size_t i, struct life_answer *answer, size_t bulk_len)
{
    char *bulk = bulk_len > 0 ? calloc(1, bulk_len) : NULL;
    *answer = (struct life_answer){0};
    for (size_t at = 0; at < bulk_len; at++)
        bulk[at] = (char)(at * 31 + at / 251);
    machine_request(life->machines[i].machine, bulk ? SHP_MSG_LINK_ECHO : SHP_MSG_IDENTITY_GET,
                    NULL, 60000, NULL, bulk, bulk_len, on_answer, answer);
    free(bulk);
}

size_t life_clients(const struct life_machine *machine)
{
    static pid_t pids[PROCESSES_MAX];
    size_t len = processes_below(getpid(), pids), found = 0;
    for (size_t i = 0; i < len; i++)
        found += process_is(pids[i], "ssh", machine ? machine->name : NULL) &&
                 !process_is(pids[i], "ssh", "-G");
    return found;
}

size_t life_sessions(const struct life *life, pid_t *pids)
{
    static pid_t own[PROCESSES_MAX];
    return life->sshd->pid > 0 ? processes_below(life->sshd->pid, pids ? pids : own) : 0;
}

/* ---- a program of tests -------------------------------------------------------------------- */

char life_openssh[] = "openssh";
char life_libssh[] = "libssh";

bool life_prepare(struct sshd_fixture *sshd, int argc, char **argv)
{
    if (sshd_fixture_start(sshd) != 0)
        return false;
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    if (!*shp_ssh_libssh_version())
        cmocka_set_skip_filter("*_libssh");
    return true;
}

int life_finish(struct sshd_fixture *sshd, int failed)
{
    sshd_fixture_stop(sshd);
    return failed;
}
