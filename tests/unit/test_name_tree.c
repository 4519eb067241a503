/* server/tensors/name_tree.c: compared with a sorted list, for random insertions and removals. */
#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/tensors/name_tree.h"

enum { NAMES = 700, STEPS = 6000 };

static char names[NAMES][8];
static struct name_node nodes[NAMES];
static bool is_in[NAMES];
static struct name_tree tree;

/* Their order is that of their numbers. */
static void set_up(void)
{
    tree = (struct name_tree){.root = NULL};
    memset(is_in, 0, sizeof is_in);
    for (uint32_t i = 0; i < NAMES; i++) {
        snprintf(names[i], sizeof names[i], "n%05u", (unsigned)i);
        nodes[i] = (struct name_node){.name = names[i]};
    }
}

static uint32_t height(const struct name_node *node)
{
    if (node == NULL)
        return 0;
    ck_assert(node->left == NULL ||
              (node->left->weight <= node->weight && strcmp(node->left->name, node->name) < 0));
    ck_assert(node->right == NULL ||
              (node->right->weight <= node->weight && strcmp(node->right->name, node->name) > 0));
    const uint32_t left = height(node->left), right = height(node->right);
    return 1 + (left > right ? left : right);
}

/* The names after number `after` (-1: all), as many as asked for. */
static void assert_lists(int after, uint32_t capacity)
{
    static struct name_node *found[NAMES + 1];
    uint32_t expected = 0;
    const uint32_t count = name_tree_after(&tree, after < 0 ? "" : names[after], found, capacity);
    for (int i = after + 1; i < NAMES && expected < capacity; i++) {
        if (!is_in[i])
            continue;
        ck_assert_msg(expected < count && found[expected] == &nodes[i], "number %d is not there",
                      i);
        expected++;
    }
    ck_assert_uint_eq(count, expected);
}

static void turn(uint32_t number)
{
    ck_assert_ptr_eq(name_tree_find(&tree, names[number]), is_in[number] ? &nodes[number] : NULL);
    if (is_in[number])
        name_tree_remove(&tree, &nodes[number]);
    else
        name_tree_insert(&tree, &nodes[number]);
    is_in[number] = !is_in[number];
    ck_assert_ptr_eq(name_tree_find(&tree, names[number]), is_in[number] ? &nodes[number] : NULL);
}

START_TEST(it_holds_what_a_list_would)
{
    uint64_t state = 88172645463325252u + (uint64_t)_i;
    for (uint32_t step = 0; step < STEPS; step++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        turn((uint32_t)(state % NAMES));
        if (step % 50 == 0)
            assert_lists((int)(state / NAMES % (NAMES + 1)) - 1, (uint32_t)(state >> 40) % NAMES);
    }
    assert_lists(-1, NAMES);
    (void)height(tree.root);
}
END_TEST

/* In order, in reverse, or from both ends: no tree of random weights is 60 deep with 700 names. */
START_TEST(no_order_makes_it_a_list)
{
    for (uint32_t i = 0; i < NAMES; i++)
        turn(_i == 0 ? i : _i == 1 ? NAMES - 1 - i : i % 2 == 0 ? i / 2 : NAMES - 1 - i / 2);
    ck_assert_uint_le(height(tree.root), 60);
    assert_lists(-1, NAMES);
    assert_lists(NAMES - 1, NAMES);
    assert_lists(10, 0);
    for (uint32_t i = 0; i < NAMES; i++)
        turn(i);
    ck_assert_ptr_null(tree.root);
}
END_TEST

START_TEST(an_empty_one_has_nothing)
{
    ck_assert_ptr_null(name_tree_find(&tree, "a"));
    assert_lists(-1, NAMES);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("name_tree");
    TCase *tcase = tcase_create("name_tree");
    tcase_add_checked_fixture(tcase, set_up, NULL);
    tcase_add_loop_test(tcase, it_holds_what_a_list_would, 0, 4);
    tcase_add_loop_test(tcase, no_order_makes_it_a_list, 0, 3);
    tcase_add_test(tcase, an_empty_one_has_nothing);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
