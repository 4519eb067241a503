/*
 * size_text.h - sizes and amounts of work in units that people read, for messages.
 *
 * A text is returned by value, so that a message is one expression:
 * fault_set(..., "the body is %s", size_text(bytes).text). Pure functions, any thread.
 */
#ifndef PROTO_SIZE_TEXT_H
#define PROTO_SIZE_TEXT_H

#include <stdint.h>

struct size_text {
    char text[48];
};

/* A size in the largest binary unit of which it is at least one: "800 bytes", "1 GiB". A size that
 * is not a whole number of that unit has three digits and the number of bytes behind them: "74.5
 * GiB (80000000000 bytes)". */
struct size_text size_text(uint64_t bytes);
/* A number of floating-point operations, at least 0, with six digits: "16.2 PFLOP". */
struct size_text size_work_text(double operations);

#endif
