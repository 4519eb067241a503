/*
 * name_tree.h - names in alphabetical order: a treap (C. R. Aragon and R. G. Seidel, "Randomized
 * Search Trees", 1989), whose nodes are parts of the elements that have the names.
 *
 * Every function takes O(log n) steps on average, whatever the names are and in whatever order they
 * are inserted and removed: the weights that balance the tree are random, and no client can choose
 * them. A tree allocates nothing. One thread at a time.
 */
#ifndef SERVER_TENSORS_NAME_TREE_H
#define SERVER_TENSORS_NAME_TREE_H

#include <stdint.h>

struct name_node {
    const char *name; /* set before the node is inserted; borrowed while the node is in a tree */
    struct name_node *left, *right;
    uint32_t weight; /* not higher than the weight of the parent */
};

/* Zeroed: empty. */
struct name_tree {
    struct name_node *root;
    uint64_t random; /* state of the random numbers */
};

/* NULL: no node has that name. */
struct name_node *name_tree_find(const struct name_tree *tree, const char *name);
/* Inserts a node. The tree must not have another node of the same name. */
void name_tree_insert(struct name_tree *tree, struct name_node *node);
/* Removes a node, which must be in the tree. */
void name_tree_remove(struct name_tree *tree, struct name_node *node);
/* Writes to `nodes` the first nodes, in order, whose names come after `after`, `capacity` at most.
 * Returns how many. Takes O(log n) steps and one for each node. */
uint32_t name_tree_after(const struct name_tree *tree, const char *after, struct name_node *nodes[],
                         uint32_t capacity);

#endif
