/* server/base/heap.c: nodes that are added in any order are first in the right order, and any node
 * can be removed. */
#include <check.h>
#include <stdlib.h>

#include "server/base/heap.h"

enum { NODES = 2000, ROUNDS = 20 };

struct number {
    struct heap_node node;
    uint32_t value, order;
    bool in;
};

static bool number_before(const struct heap_node *one, const struct heap_node *other)
{
    const struct number *a = OWNER_OF(one, const struct number, node);
    const struct number *b = OWNER_OF(other, const struct number, node);
    return a->value != b->value ? a->value < b->value : a->order < b->order;
}

/* Checks the links, the order and the ranks; returns how many nodes there are. */
static uint32_t count(const struct heap_node *root)
{
    const struct heap_node *node = root, *from = NULL;
    uint32_t nodes = 0;
    while (node != NULL) { /* in depth, by the parents */
        uint32_t left = node->left == NULL ? 0 : node->left->rank;
        uint32_t right = node->right == NULL ? 0 : node->right->rank;
        const struct heap_node *next = node->parent;
        if (from == node->parent) {
            nodes++;
            ck_assert_uint_ge(left, right);
            ck_assert_uint_eq(node->rank, right + 1);
            ck_assert(node->parent == NULL || !number_before(node, node->parent));
        }
        if (from == node->parent && node->left != NULL)
            next = node->left;
        else if (from != node->right && node->right != NULL)
            next = node->right;
        from = node;
        node = next;
    }
    return nodes;
}

static uint32_t random_below(uint32_t limit)
{
    return (uint32_t)random() % limit;
}

static struct number numbers[NODES];

static void add(struct heap_node **root, uint32_t i, uint32_t value)
{
    numbers[i].value = value;
    numbers[i].order = i;
    numbers[i].in = true;
    heap_add(root, &numbers[i].node, number_before);
}

START_TEST(what_went_in_comes_out_in_order)
{
    struct heap_node *root = NULL;
    for (uint32_t i = 0; i < NODES; i++)
        add(&root, i, _i == 0 ? i : _i == 1 ? NODES - i : _i == 2 ? 7 : random_below(NODES / 4));
    ck_assert_uint_eq(count(root), NODES);
    const struct heap_node *last = NULL;
    for (uint32_t i = 0; i < NODES; i++) {
        struct heap_node *first = root;
        ck_assert(last == NULL || number_before(last, first));
        heap_remove(&root, first, number_before);
        last = first;
    }
    ck_assert_ptr_null(root);
}
END_TEST

START_TEST(any_node_can_be_taken_out)
{
    struct heap_node *root = NULL;
    uint32_t in = 0;
    srandom(1);
    for (uint32_t step = 0; step < ROUNDS * NODES; step++) {
        uint32_t i = random_below(NODES);
        if (numbers[i].in)
            heap_remove(&root, &numbers[i].node, number_before);
        numbers[i].in = !numbers[i].in;
        in += numbers[i].in ? 1u : -1u;
        if (numbers[i].in)
            add(&root, i, random_below(NODES));
        if (step % 500 == 0)
            ck_assert_uint_eq(count(root), in);
    }
    for (uint32_t i = 0; i < NODES; i++)
        ck_assert(!numbers[i].in || root == &numbers[i].node ||
                  number_before(root, &numbers[i].node));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("heap");
    TCase *tests = tcase_create("heap");
    tcase_add_loop_test(tests, what_went_in_comes_out_in_order, 0, 4);
    tcase_add_test(tests, any_node_can_be_taken_out);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
