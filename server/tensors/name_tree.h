/*
 * name_tree.h - names in order: a treap (C. R. Aragon and R. G. Seidel, "Randomized Search Trees",
 * 1989), whose nodes are part of what they name.
 *
 * Everything takes O(log n) on average, whatever the names are and in whatever order they come and
 * go: the weights that keep the tree in balance are random and nobody's to choose. Nothing is
 * allocated. One thread at a time.
 */
#ifndef SERVER_TENSORS_NAME_TREE_H
#define SERVER_TENSORS_NAME_TREE_H

#include <stdint.h>

struct name_node {
    const char *name; /* set before it is inserted; borrowed while it is in a tree */
    struct name_node *left, *right;
    uint32_t weight; /* not above its parent's */
};

/* All zero: empty. */
struct name_tree {
    struct name_node *root;
    uint64_t random;
};

/* NULL: there is none of that name. */
struct name_node *name_tree_find(const struct name_tree *tree, const char *name);
/* No other node of that name is in the tree. */
void name_tree_insert(struct name_tree *tree, struct name_node *node);
/* It is in the tree. */
void name_tree_remove(struct name_tree *tree, struct name_node *node);
/* The first nodes whose names come after `after`, in order, at most `capacity` of them. Returns how
 * many; O(log n) besides. */
uint32_t name_tree_after(const struct name_tree *tree, const char *after, struct name_node *nodes[],
                         uint32_t capacity);

#endif
