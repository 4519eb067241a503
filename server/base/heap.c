#include "server/base/heap.h"

static uint32_t node_rank(const struct heap_node *node)
{
    return node == NULL ? 0 : node->rank;
}

/* Puts the child with the longer right spine on the left, and sets the rank of the node. */
static void lean_left(struct heap_node *node)
{
    if (node_rank(node->left) < node_rank(node->right)) {
        struct heap_node *left = node->left;
        node->left = node->right;
        node->right = left;
    }
    node->rank = node_rank(node->right) + 1;
}

/* Merges two heaps: walks down both right spines, from the node that comes first each time, and
 * then up again to restore the ranks. */
static struct heap_node *heap_merge(struct heap_node *one, struct heap_node *other,
                                    heap_before *before)
{
    struct heap_node *last = NULL;
    while (one != NULL && other != NULL) {
        struct heap_node *first = before(other, one) ? other : one;
        if (first == other)
            other = one;
        one = first->right;
        first->parent = last;
        if (last != NULL)
            last->right = first;
        last = first;
    }
    struct heap_node *rest = one != NULL ? one : other;
    if (last == NULL)
        return rest;
    last->right = rest;
    if (rest != NULL)
        rest->parent = last;
    for (;;) {
        lean_left(last);
        if (last->parent == NULL)
            return last;
        last = last->parent;
    }
}

void heap_add(struct heap_node **root, struct heap_node *node, heap_before *before)
{
    *node = (struct heap_node){.rank = 1};
    *root = heap_merge(*root, node, before);
    (*root)->parent = NULL;
}

void heap_remove(struct heap_node **root, struct heap_node *node, heap_before *before)
{
    struct heap_node *parent = node->parent;
    if (node->left != NULL)
        node->left->parent = NULL;
    if (node->right != NULL)
        node->right->parent = NULL;
    struct heap_node *rest = heap_merge(node->left, node->right, before);
    if (rest != NULL)
        rest->parent = parent;
    if (parent == NULL) {
        *root = rest;
        return;
    }
    if (parent->left == node)
        parent->left = rest;
    else
        parent->right = rest;
    /* Ranks grow by one with each step up, so that the loop ends after O(log n) steps. */
    for (; parent != NULL; parent = parent->parent) {
        uint32_t was = parent->rank;
        lean_left(parent);
        if (parent->rank == was)
            break;
    }
}
