/*
 * heap.h - a heap whose nodes are parts of the elements (owner.h). The heap allocates nothing, and
 * any element can be removed, not only the first.
 *
 * A leftist tree (C. A. Crane, 1972; D. E. Knuth, The Art of Computer Programming, volume
 * 3, 5.2.3): the right spine of n nodes has at most log2(n + 1) nodes, and adding and removing
 * visit no more than that. Not thread-safe: the owner of the heap locks it.
 */
#ifndef SERVER_BASE_HEAP_H
#define SERVER_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/base/owner.h"

struct heap_node {
    struct heap_node *parent, *left, *right;
    uint32_t rank; /* number of nodes on the right spine from this node down */
};

/* A strict order of nodes. The order of two nodes must not change while both are in a heap. */
typedef bool heap_before(const struct heap_node *one, const struct heap_node *other);

/* `*root` is the heap: the first node in order, or NULL while the heap is empty. */
void heap_add(struct heap_node **root, struct heap_node *node, heap_before *before);
void heap_remove(struct heap_node **root, struct heap_node *node, heap_before *before);

#endif
