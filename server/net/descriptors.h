/*
 * descriptors.h - how many connections the system's limit of open files leaves room for.
 *
 * A process is commonly started with 1024 (the soft limit) and may take many more (the hard one).
 * Beyond the limit connections are not refused but wait unanswered, so the daemon takes as many
 * files as it needs, and where it cannot have them lowers its own limit, which answers.
 */
#ifndef SERVER_NET_DESCRIPTORS_H
#define SERVER_NET_DESCRIPTORS_H

#include <stdint.h>

/* Of `connections`, those that `files` suffice for besides what the daemon itself opens with so
 * many I/O threads; at least 1. */
uint32_t descriptors_suffice_for(uint64_t files, uint32_t connections, uint32_t io_threads);

/* Raises the soft limit as far as `connections` need it and the hard one allows. Returns the files
 * that may be open now. Main thread, before others start. */
uint64_t descriptors_raise(uint32_t connections, uint32_t io_threads);

#endif
