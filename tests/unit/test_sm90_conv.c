/* The choice of a tile for convolutions on sm_90a: the tiles that were fastest on an H100 by a
 * clear margin (kernels/experiments/conv.md), and those for few pixels. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/sm90/conv/sm90_conv.h"

/* Images of side x side, a square filter, and the tile without the name of its type. */
static const struct {
    uint64_t images, channels, side, filters, taps, stride, padding;
    const char *tile;
} LAYERS[] = {
    {32, 512, 7, 512, 3, 1, 1, "128x64_1x2"},   /* resnet_conv5_3x3 */
    {32, 512, 14, 512, 3, 2, 1, "128x64_1x2"},  /* resnet_conv5_3x3s2 */
    {4, 512, 32, 512, 3, 1, 1, "128x128_1x2"},  /* unet_512_32 */
    {4, 1024, 32, 512, 3, 1, 1, "128x128_1x2"}, /* unet_1024_512_32 */
    {4, 64, 128, 128, 3, 1, 1, "128x128_pp"},   /* unet_64_128_128 */
    {4, 256, 128, 128, 3, 1, 1, "256x128"},     /* unet_256_128_128 */
    {32, 128, 56, 128, 3, 2, 1, "128x128_pp"},  /* resnet_conv3_3x3s2 */
    {4, 256, 64, 256, 3, 1, 1, "128x128_1x2"},  /* unet_256_64 */
    {32, 1024, 14, 2048, 1, 2, 0, "256x128"},   /* resnet_down5_1x1s2 */
    {1, 128, 56, 320, 3, 2, 1, "64x64"},        /* 784 pixels */
    {32, 192, 28, 384, 1, 2, 0, "128x192"},     /* as many pixels as convnext_down3_2x2s2 */
    {4, 64, 56, 64, 3, 1, 1, "128x64"},         /* tiles of 256 pixels would be 49 */
    {1, 256, 14, 256, 3, 1, 1, "64x64"},        /* resnet_conv4_3x3, one image */
};

static struct sm90_conv layer(int i, enum gemmd_dtype dtype)
{
    const uint64_t side = LAYERS[i].side, channels = LAYERS[i].channels, taps = LAYERS[i].taps;
    const uint64_t out = (side + 2 * LAYERS[i].padding - taps) / LAYERS[i].stride + 1;
    return (struct sm90_conv){
        .dtype = dtype,
        .out = dtype,
        .alpha = 1,
        .images = LAYERS[i].images,
        .height = side,
        .width = side,
        .channels = channels,
        .x_image = side * side * channels,
        .x_row = side * channels,
        .x_pixel = channels,
        .filters = LAYERS[i].filters,
        .w_filter = taps * taps * channels,
        .w_tap = channels,
        .taps_h = taps,
        .taps_w = taps,
        .dilation_h = 1,
        .dilation_w = 1,
        .stride_h = LAYERS[i].stride,
        .stride_w = LAYERS[i].stride,
        .pad_top = LAYERS[i].padding,
        .pad_left = LAYERS[i].padding,
        .out_height = out,
        .out_width = out,
        .ldy = LAYERS[i].filters,
    };
}

static void expect_tile(const struct sm90_conv *conv, const char *tile)
{
    ck_assert(sm90_conv_takes(conv));
    const struct sm90_kernel *kernel = sm90_conv_choose(conv, &sm90_h100_sxm);
    ck_assert_ptr_nonnull(kernel);
    ck_assert_str_eq(strchr(kernel->name, '_') + 1, tile);
}

START_TEST(the_fastest_tile)
{
    const struct sm90_conv bf16 = layer(_i, GEMMD_BF16), f16 = layer(_i, GEMMD_F16);
    expect_tile(&bf16, LAYERS[_i].tile);
    expect_tile(&f16, LAYERS[_i].tile);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("sm90_conv");
    tcase_add_loop_test(tests, the_fastest_tile, 0, sizeof LAYERS / sizeof *LAYERS);
    Suite *suite = suite_create("sm90_conv");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
