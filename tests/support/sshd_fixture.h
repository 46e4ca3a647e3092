/*
 * A throw-away sshd on loopback with its own keys, configuration and home directory, and a client
 * (`ssh` with a configuration of its own) that knows these hosts:
 *
 *   good        logs in
 *   unknown     the host key is in no known_hosts
 *   changed     known_hosts holds another key
 *   denied      the key is not authorized
 *   refused     nothing listens
 *   unresolved  the name has no address
 *   hostile     as good, with every option that disturbs a channel (RemoteCommand, RequestTTY, ...)
 */
#ifndef SHP_TESTS_SUPPORT_SSHD_FIXTURE_H
#define SHP_TESTS_SUPPORT_SSHD_FIXTURE_H

#include <sys/types.h>

struct sshd_fixture {
    char directory[128];
    char ssh[160];  /* path of the client */
    char home[160]; /* HOME of what runs on the remote side */
    int port;
    pid_t pid;
};

/* 0, or -1 with the reason printed (a needed program is missing, or sshd does not start). */
int sshd_fixture_start(struct sshd_fixture *fixture);
void sshd_fixture_stop(struct sshd_fixture *fixture);

/* The listener alone ends, sessions stay; and listens again on its port (0, or -1 as above). */
void sshd_fixture_pause(struct sshd_fixture *fixture);
int sshd_fixture_resume(struct sshd_fixture *fixture);

#endif
