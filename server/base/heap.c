#include "server/base/heap.h"

static uint32_t rank(const struct heap_node *node)
{
    return node == NULL ? 0 : node->rank;
}

/* The longer right spine to the left; then the node's own rank. */
static void lean_left(struct heap_node *node)
{
    if (rank(node->left) < rank(node->right)) {
        struct heap_node *left = node->left;
        node->left = node->right;
        node->right = left;
    }
    node->rank = rank(node->right) + 1;
}

/* Down both right spines, always on from the node that comes first, then up again. */
static struct heap_node *merge(struct heap_node *one, struct heap_node *other, heap_before *before)
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
    *root = merge(*root, node, before);
    (*root)->parent = NULL;
}

void heap_remove(struct heap_node **root, struct heap_node *node, heap_before *before)
{
    struct heap_node *parent = node->parent;
    if (node->left != NULL)
        node->left->parent = NULL;
    if (node->right != NULL)
        node->right->parent = NULL;
    struct heap_node *rest = merge(node->left, node->right, before);
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
    /* Ranks grow by one a step on the way up, so that this ends soon. */
    for (; parent != NULL; parent = parent->parent) {
        uint32_t was = parent->rank;
        lean_left(parent);
        if (parent->rank == was)
            break;
    }
}
