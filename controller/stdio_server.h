/*
 * `shepherdr controller --stdio`: serves one pi session over standard input and output, suite
 * plain. Ends with its standard input. Calls of the tool become operations; due reports are handed
 * over at once, and the ledger marks that come back decide what becomes of each.
 */
#ifndef SHP_CONTROLLER_STDIO_SERVER_H
#define SHP_CONTROLLER_STDIO_SERVER_H

/* Runs until the end. program_dir: directory of this binary. Exit status. */
int stdio_server_run(const char *program_dir);

#endif
