/*
 * shelves.h - the works that wait to be stacked (work.h: stack_key), where those of one stack are
 * found together.
 *
 * A shelf holds works of one stack and one flow: one tenant, lane and priority of the queue. A
 * stack has as many shelves as flows have works for it. Their number is fixed, so that nothing is
 * allocated while serving; what finds none free waits without one, and is launched without company.
 * Finding takes O(1) steps, adding and removing O(log n) for n works on the shelf. Not thread-safe:
 * the queue locks it. Works are borrowed.
 */
#ifndef SERVER_WORK_SHELVES_H
#define SERVER_WORK_SHELVES_H

#include <stdbool.h>

#include "server/work/work.h"

enum { SHELVES = 1024 };

struct flow; /* the queue's */
struct shelves;

struct shelf {
    struct shelf *next;      /* in its bucket, or among the free ones */
    struct heap_node *works; /* as they run (agenda_before); never empty */
    struct flow *flow;
    struct heap_node node; /* the taker's, while it takes */
};

struct shelves *shelves_create(void); /* NULL: out of memory */
void shelves_destroy(struct shelves *shelves);

/* Sets work->shelf: one of its stack and flow, or NULL if there is none left. `order` is set. */
void shelves_add(struct shelves *shelves, struct work *work, struct flow *flow);
/* Its shelf is not NULL; it is after this. A shelf that gets empty is gone. */
void shelves_remove(struct shelves *shelves, struct work *work);

/* The shelves with works of the same stack as `work`, one after another, in no order; NULL: there
 * are no more. */
struct shelf *shelves_find(const struct shelves *shelves, const struct work *work);
struct shelf *shelves_find_next(const struct shelf *shelf, const struct work *work);

/* The one that runs first, and whether it is the only one. */
struct work *shelf_first(const struct shelf *shelf);
bool shelf_has_one(const struct shelf *shelf);

#endif
