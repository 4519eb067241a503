/*
 * descriptors.h - for how many connections the system's limit of open files suffices.
 *
 * A process commonly starts with a soft limit of 1024 open files, and may raise it to a much higher
 * hard limit. Connections beyond the limit are not refused: they wait without an answer. The daemon
 * therefore raises its soft limit as far as it needs. Where that is not far enough, the daemon
 * lowers its own limit of connections, beyond which connections get an answer.
 */
#ifndef SERVER_NET_DESCRIPTORS_H
#define SERVER_NET_DESCRIPTORS_H

#include <stdint.h>

/* How many connections can be open if the process may open `files` files, some of which the daemon
 * itself opens, with `io_threads` I/O threads: 1 ... `connections`. */
uint32_t descriptors_suffice_for(uint64_t files, uint32_t connections, uint32_t io_threads);

/* Raises the soft limit as far as `connections` need and the hard limit allows. Returns the number
 * of files that may now be open. Main thread, before other threads start. */
uint64_t descriptors_raise(uint32_t connections, uint32_t io_threads);

#endif
