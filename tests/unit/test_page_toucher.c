/* server/device/memory/page_toucher.c: which pages are allocated, and that no byte changes. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "server/device/memory/page_toucher.h"
#include "server/observe/log.h"

enum { MIB = 1 << 20, PIECE = 2 * MIB, PAGE = 4096 };

static struct log *toucher_log;
static int output; /* standard output, which the log's lines are kept from */

static void open_log(void)
{
    output = dup(STDOUT_FILENO);
    ck_assert_ptr_nonnull(freopen("/dev/null", "w", stdout));
    toucher_log = log_create(CONFIG_LOG_ERROR, CONFIG_LOG_JSON);
    ck_assert_ptr_nonnull(toucher_log);
}

static void close_log(void)
{
    log_destroy(toucher_log);
    ck_assert_int_ge(dup2(output, STDOUT_FILENO), 0);
    close(output);
}

/* Fresh memory that begins `past` bytes after a boundary of large pages. */
static struct page_span fresh(uint64_t past, uint64_t bytes)
{
    unsigned char *memory = mmap(NULL, bytes + 2 * PIECE, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ck_assert_ptr_ne(memory, MAP_FAILED);
    return (struct page_span){memory + PIECE - (uintptr_t)memory % PIECE + past, bytes};
}

/* How many bytes of pages from the first on are allocated. */
static uint64_t allocated(const struct page_span *span)
{
    const uint64_t pages = (span->bytes + PAGE - 1) / PAGE;
    unsigned char *present = malloc(pages);
    uint64_t count = 0;
    ck_assert_ptr_nonnull(present);
    ck_assert_int_eq(mincore(span->memory, span->bytes, present), 0);
    while (count < pages && (present[count] & 1) != 0)
        count++;
    free(present);
    return count * PAGE;
}

static struct page_progress run(const struct page_span spans[], uint32_t count, uint64_t bytes)
{
    struct page_toucher *toucher = page_toucher_start(spans, count, bytes, toucher_log);
    ck_assert_ptr_nonnull(toucher);
    while (!page_toucher_progress(toucher).has_ended)
        usleep(1000);
    const struct page_progress progress = page_toucher_progress(toucher);
    page_toucher_stop(toucher);
    return progress;
}

START_TEST(all_spans)
{
    /* Aligned, not aligned, and of no whole number of pages. */
    const struct page_span spans[] = {fresh(0, 8 * MIB), fresh(PAGE, 5 * MIB),
                                      fresh(0, 3 * MIB + 100)};
    const uint64_t all = 16 * MIB + 100;
    spans[0].memory[0] = spans[0].memory[5 * MIB] = 7;
    spans[2].memory[3 * MIB + 99] = 9;
    const struct page_progress progress = run(spans, 3, UINT64_MAX);
    ck_assert_uint_eq(progress.bytes, all);
    ck_assert_uint_eq(progress.wanted_bytes, all);
    ck_assert_uint_le(progress.large_bytes, all);
    for (int i = 0; i < 3; i++)
        ck_assert_uint_ge(allocated(&spans[i]), spans[i].bytes);
    ck_assert_uint_eq(spans[0].memory[0], 7);
    ck_assert_uint_eq(spans[0].memory[5 * MIB], 7);
    ck_assert_uint_eq(spans[2].memory[3 * MIB + 99], 9);
}
END_TEST

START_TEST(equal_parts_of_two_spans)
{
    const struct page_span spans[] = {fresh(0, 64 * MIB), fresh(0, 64 * MIB)};
    const struct page_progress progress = run(spans, 2, 16 * MIB);
    ck_assert_uint_eq(progress.bytes, 16 * MIB);
    ck_assert_uint_eq(allocated(&spans[0]), 8 * MIB);
    ck_assert_uint_eq(allocated(&spans[1]), 8 * MIB);
}
END_TEST

START_TEST(a_short_span_leaves_its_part_to_the_other)
{
    const struct page_span spans[] = {{NULL, 0}, fresh(0, 2 * MIB), fresh(0, 64 * MIB)};
    ck_assert_uint_eq(run(spans, 3, 16 * MIB).bytes, 16 * MIB);
    ck_assert_uint_eq(allocated(&spans[1]), 2 * MIB);
    ck_assert_uint_eq(allocated(&spans[2]), 14 * MIB);
}
END_TEST

/* The thread needs hours for so much memory, and reads the stop between two pieces. */
START_TEST(stops_early)
{
    const struct page_span spans[] = {fresh(0, UINT64_C(1) << 40)};
    struct page_toucher *toucher = page_toucher_start(spans, 1, UINT64_MAX, toucher_log);
    ck_assert_ptr_nonnull(toucher);
    page_toucher_stop(toucher);
    ck_assert_uint_lt(allocated(&(struct page_span){spans[0].memory, 1 << 30}), 1 << 30);
}
END_TEST

START_TEST(nothing_to_touch)
{
    const struct page_span spans[] = {fresh(0, 2 * MIB), {NULL, 0}};
    ck_assert_ptr_null(page_toucher_start(spans, 2, 0, toucher_log));
    ck_assert_ptr_null(page_toucher_start(spans + 1, 1, UINT64_MAX, toucher_log));
    ck_assert_uint_eq(allocated(&spans[0]), 0);
    const struct page_progress none = page_toucher_progress(NULL);
    ck_assert_uint_eq(none.bytes + none.wanted_bytes + none.large_bytes, 0);
    ck_assert(none.has_ended);
    page_toucher_stop(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("page_toucher");
    TCase *tests = tcase_create("page_toucher");
    tcase_add_checked_fixture(tests, open_log, close_log);
    tcase_add_test(tests, all_spans);
    tcase_add_test(tests, equal_parts_of_two_spans);
    tcase_add_test(tests, a_short_span_leaves_its_part_to_the_other);
    tcase_add_test(tests, stops_early);
    tcase_add_test(tests, nothing_to_touch);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
