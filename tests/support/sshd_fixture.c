#include "tests/support/sshd_fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SSHD "/usr/sbin/sshd"
#define PORT_TRIES 5
#define START_TRIES 500
#define START_WAIT_US 20000

__attribute__((format(printf, 1, 2))) static int run(const char *format, ...)
{
    char command[2048];
    va_list args;

    va_start(args, format);
    vsnprintf(command, sizeof(command), format, args);
    va_end(args);
    return system(command);
}

__attribute__((format(printf, 4, 5))) static int write_file(const struct sshd_fixture *fixture,
                                                            const char *name, mode_t mode,
                                                            const char *format, ...)
{
    char path[256];
    va_list args;
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", fixture->directory, name);
    file = fopen(path, "w");
    if (file == NULL)
        return -1;
    va_start(args, format);
    vfprintf(file, format, args);
    va_end(args);
    fclose(file);
    return chmod(path, mode);
}

/* A port that is free now. */
static int find_port(int *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0)
        return -1;
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) != 0) {
        close(fd);
        return -1;
    }
    *port = ntohs(address.sin_port);
    close(fd);
    return 0;
}

static int make_keys(const struct sshd_fixture *fixture)
{
    return run("cd '%s' && mkdir home && for key in host other user stranger; do "
               "ssh-keygen -q -t ed25519 -N '' -C test -f $key || exit 1; done && "
               "cp user.pub authorized_keys && : > known_empty",
               fixture->directory);
}

static int write_files(struct sshd_fixture *fixture)
{
    const char *dir = fixture->directory;
    const struct passwd *user = getpwuid(geteuid());
    int refused = 0;

    if (user == NULL || find_port(&refused) != 0)
        return -1;
    if (run("cd '%s' && awk '{print \"[127.0.0.1]:%d \" $1 \" \" $2}' host.pub > known_good && "
            "awk '{print \"[127.0.0.1]:%d \" $1 \" \" $2}' other.pub > known_changed",
            dir, fixture->port, fixture->port) != 0)
        return -1;
    if (write_file(fixture, "sshd_config", 0600,
                   "Port %d\nListenAddress 127.0.0.1\nHostKey %s/host\nPidFile none\n"
                   "AuthorizedKeysFile %s/authorized_keys\nStrictModes no\nUsePAM no\n"
                   "PasswordAuthentication no\nKbdInteractiveAuthentication no\n"
                   "PermitRootLogin yes\nPermitUserEnvironment no\nMaxStartups 100\n"
                   "MaxSessions 1\nLogLevel INFO\nSetEnv HOME=%s\n",
                   fixture->port, dir, dir, fixture->home) != 0)
        return -1;
    if (write_file(fixture, "client_config", 0600,
                   "Host refused\n Port %d\n"
                   "Host unresolved\n HostName no-such-name.invalid\n"
                   "Host unknown\n UserKnownHostsFile %s/known_empty\n"
                   "Host changed\n UserKnownHostsFile %s/known_changed\n"
                   "Host denied\n IdentityFile %s/stranger\n"
                   "Host hostile\n RemoteCommand echo disturbed\n RequestTTY force\n"
                   " LocalForward 127.0.0.1:1 127.0.0.1:1\n ExitOnForwardFailure yes\n"
                   " PermitLocalCommand yes\n LocalCommand echo disturbed\n StdinNull yes\n"
                   " ForkAfterAuthentication yes\n LogLevel QUIET\n"
                   " ControlMaster auto\n ControlPath %s/control\n ControlPersist 60\n"
                   "Host * !denied\n IdentityFile %s/user\n"
                   "Host *\n HostName 127.0.0.1\n Port %d\n User %s\n IdentitiesOnly yes\n "
                   "UserKnownHostsFile %s/known_good\n"
                   " GlobalKnownHostsFile /dev/null\n",
                   refused, dir, dir, dir, dir, dir, fixture->port, user->pw_name, dir) != 0)
        return -1;
    return write_file(fixture, "ssh", 0700, "#!/bin/sh\nexec ssh -F '%s/client_config' \"$@\"\n",
                      dir);
}

static int spawn_sshd(struct sshd_fixture *fixture)
{
    char config[256];
    char log[256];

    snprintf(config, sizeof(config), "%s/sshd_config", fixture->directory);
    snprintf(log, sizeof(log), "%s/sshd.log", fixture->directory);
    fixture->pid = fork();
    if (fixture->pid == 0) {
        int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600);

        dup2(fd, 2);
        execl(SSHD, SSHD, "-D", "-e", "-f", config, (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < START_TRIES; i++) {
        siginfo_t ended = {0};

        if (waitid(P_PID, (id_t)fixture->pid, &ended, WEXITED | WNOHANG | WNOWAIT) != 0 ||
            ended.si_pid != 0)
            break;
        /* Its own word: another process may have taken the port meanwhile and answer there. */
        if (run("grep -q '^Server listening' '%s' 2>/dev/null", log) == 0)
            return 0;
        usleep(START_WAIT_US);
    }
    run("cat '%s' >&2", log);
    kill(fixture->pid, SIGKILL);
    waitpid(fixture->pid, NULL, 0);
    fixture->pid = 0;
    return -1;
}

static int start_on_some_port(struct sshd_fixture *fixture)
{
    for (int i = 0; i < PORT_TRIES; i++) {
        fixture->port = 0;
        if (find_port(&fixture->port) == 0 && write_files(fixture) == 0 && spawn_sshd(fixture) == 0)
            return 0;
    }
    return -1;
}

int sshd_fixture_start(struct sshd_fixture *fixture)
{
    memset(fixture, 0, sizeof(*fixture));
    if (access(SSHD, X_OK) != 0 || run("command -v ssh ssh-keygen >/dev/null") != 0) {
        fprintf(stderr, "skipped: no %s, ssh or ssh-keygen\n", SSHD);
        return -1;
    }
    /* The privilege separation directory of the distribution, which its service makes. */
    if (geteuid() == 0)
        mkdir("/run/sshd", 0755);
    strcpy(fixture->directory, "/tmp/shp-sshd-XXXXXX");
    if (mkdtemp(fixture->directory) == NULL)
        return -1;
    snprintf(fixture->ssh, sizeof(fixture->ssh), "%s/ssh", fixture->directory);
    snprintf(fixture->home, sizeof(fixture->home), "%s/home", fixture->directory);
    if (make_keys(fixture) == 0 && start_on_some_port(fixture) == 0)
        return 0;
    fprintf(stderr, "skipped: sshd does not start\n");
    sshd_fixture_stop(fixture);
    return -1;
}

void sshd_fixture_pause(struct sshd_fixture *fixture)
{
    if (fixture->pid > 0) {
        kill(fixture->pid, SIGTERM);
        waitpid(fixture->pid, NULL, 0);
        fixture->pid = 0;
    }
}

int sshd_fixture_resume(struct sshd_fixture *fixture)
{
    return spawn_sshd(fixture);
}

void sshd_fixture_stop(struct sshd_fixture *fixture)
{
    sshd_fixture_pause(fixture);
    if (fixture->directory[0] != '\0')
        run("rm -rf '%s'", fixture->directory);
    fixture->directory[0] = '\0';
}
