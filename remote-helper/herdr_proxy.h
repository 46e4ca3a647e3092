/*
 * Herdr's socket API for the controller: herdr_call passes one line in and the answer's bytes out
 * untouched, under credit; roster_get asks for a snapshot and reduces it on the way.
 *
 * The bytes of an answer wait in at most HERDR_PENDING_BYTES; while the controller gives no credit
 * the socket is not read. Small answers go out whole, so that a connection that breaks early is
 * still answered with an error.
 */
#ifndef SHP_REMOTE_HELPER_HERDR_PROXY_H
#define SHP_REMOTE_HELPER_HERDR_PROXY_H

/* Begin to stream, and stop reading, above this much. */
#define HERDR_PENDING_BYTES 49152

#endif
