/*
 * heap.h - a heap whose nodes are parts of what is in it: it allocates nothing, and whatever is in
 * it can be taken out of its middle.
 *
 * A leftist tree (C. A. Crane, 1972; D. E. Knuth, The Art of Computer Programming 3, 5.2.3): the
 * right spine of n nodes is at most log2(n + 1) long, and adding and removing walk no more than
 * that. Not thread-safe: whoever owns the heap locks it.
 */
#ifndef SERVER_BASE_HEAP_H
#define SERVER_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_node {
    struct heap_node *parent, *left, *right;
    uint32_t rank; /* nodes on the right spine from here down */
};

/* The `type` whose `member` a node is. */
#define HEAP_OWNER(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))

/* A strict order of nodes, which must not change while they are in a heap. */
typedef bool heap_before(const struct heap_node *one, const struct heap_node *other);

/* `*root` is the heap: NULL while it is empty, else the node before which there is none. */
void heap_add(struct heap_node **root, struct heap_node *node, heap_before *before);
void heap_remove(struct heap_node **root, struct heap_node *node, heap_before *before);

#endif
