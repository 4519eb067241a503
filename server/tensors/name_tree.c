#include "server/tensors/name_tree.h"

#include <stddef.h>
#include <string.h>

/* SplitMix64 (G. L. Steele et al., "Fast Splittable Pseudorandom Number Generators", 2014). */
static uint32_t next_weight(struct name_tree *tree)
{
    uint64_t bits = tree->random += UINT64_C(0x9e3779b97f4a7c15);
    bits = (bits ^ (bits >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    bits = (bits ^ (bits >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(bits >> 32);
}

struct name_node *name_tree_find(const struct name_tree *tree, const char *name)
{
    struct name_node *at = tree->root;
    while (at != NULL) {
        const int order = strcmp(name, at->name);
        if (order == 0)
            return at;
        at = order < 0 ? at->left : at->right;
    }
    return NULL;
}

void name_tree_insert(struct name_tree *tree, struct name_node *node)
{
    struct name_node **link = &tree->root, *at;
    node->weight = next_weight(tree);
    while (*link != NULL && (*link)->weight >= node->weight)
        link = strcmp(node->name, (*link)->name) < 0 ? &(*link)->left : &(*link)->right;
    at = *link;
    *link = node;
    /* The subtree that was here is split into the names before the new one and those after it. */
    struct name_node **before = &node->left, **after = &node->right;
    while (at != NULL) {
        if (strcmp(at->name, node->name) < 0) {
            *before = at;
            before = &at->right;
            at = at->right;
        } else {
            *after = at;
            after = &at->left;
            at = at->left;
        }
    }
    *before = *after = NULL;
}

void name_tree_remove(struct name_tree *tree, struct name_node *node)
{
    struct name_node **link = &tree->root;
    while (*link != node)
        link = strcmp(node->name, (*link)->name) < 0 ? &(*link)->left : &(*link)->right;
    /* The two subtrees of the node are merged. The root with the higher weight goes on top each
     * time. */
    struct name_node *left = node->left, *right = node->right;
    while (left != NULL && right != NULL) {
        if (left->weight >= right->weight) {
            *link = left;
            link = &left->right;
            left = left->right;
        } else {
            *link = right;
            link = &right->left;
            right = right->left;
        }
    }
    *link = left != NULL ? left : right;
}

struct listing {
    struct name_node **nodes;
    uint32_t count, capacity;
};

/* The recursion is as deep as the tree, which is logarithmic. `after` is NULL if all names of this
 * subtree come after the name that was asked for. */
static void list_after(struct name_node *node, const char *after, struct listing *listing)
{
    while (node != NULL && listing->count < listing->capacity) {
        if (after == NULL || strcmp(node->name, after) > 0) {
            list_after(node->left, after, listing);
            if (listing->count < listing->capacity)
                listing->nodes[listing->count++] = node;
            after = NULL;
        }
        node = node->right;
    }
}

uint32_t name_tree_after(const struct name_tree *tree, const char *after, struct name_node *nodes[],
                         uint32_t capacity)
{
    struct listing listing = {nodes, 0, capacity};
    list_after(tree->root, after, &listing);
    return listing.count;
}
