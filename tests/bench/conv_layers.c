/* The layers: 24 convolutions of ResNet-50, ConvNeXt-T and a U-Net, then pointwise and depthwise
 * layers of the same networks and of MobileNet. */
#include "proto/dtype.h"
#include "tests/bench/conv.h"

/* clang-format off */
const struct conv_layer conv_layers[] = {
    {"resnet_conv1_7x7s2",    CONV_ROW_FULL, 32,    3, 224,   64, 7, 1, 2, 3},
    {"resnet_conv2_3x3",      CONV_ROW_FULL, 32,   64,  56,   64, 3, 1, 1, 1},
    {"resnet_conv3_3x3s2",    CONV_ROW_FULL, 32,  128,  56,  128, 3, 1, 2, 1},
    {"resnet_conv3_3x3",      CONV_ROW_FULL, 32,  128,  28,  128, 3, 1, 1, 1},
    {"resnet_conv4_3x3s2",    CONV_ROW_FULL, 32,  256,  28,  256, 3, 1, 2, 1},
    {"resnet_conv4_3x3",      CONV_ROW_FULL, 32,  256,  14,  256, 3, 1, 1, 1},
    {"resnet_conv5_3x3s2",    CONV_ROW_FULL, 32,  512,  14,  512, 3, 1, 2, 1},
    {"resnet_conv5_3x3",      CONV_ROW_FULL, 32,  512,   7,  512, 3, 1, 1, 1},
    {"resnet_down3_1x1s2",    CONV_ROW_FULL, 32,  256,  56,  512, 1, 1, 2, 0},
    {"resnet_down4_1x1s2",    CONV_ROW_FULL, 32,  512,  28, 1024, 1, 1, 2, 0},
    {"resnet_down5_1x1s2",    CONV_ROW_FULL, 32, 1024,  14, 2048, 1, 1, 2, 0},
    {"convnext_stem_4x4s4",   CONV_ROW_FULL, 32,    3, 224,   96, 4, 1, 4, 0},
    {"convnext_down2_2x2s2",  CONV_ROW_FULL, 32,   96,  56,  192, 2, 1, 2, 0},
    {"convnext_down3_2x2s2",  CONV_ROW_FULL, 32,  192,  28,  384, 2, 1, 2, 0},
    {"convnext_down4_2x2s2",  CONV_ROW_FULL, 32,  384,  14,  768, 2, 1, 2, 0},
    {"unet_64_256",           CONV_ROW_FULL,  4,   64, 256,   64, 3, 1, 1, 1},
    {"unet_64_128_128",       CONV_ROW_FULL,  4,   64, 128,  128, 3, 1, 1, 1},
    {"unet_128_128",          CONV_ROW_FULL,  4,  128, 128,  128, 3, 1, 1, 1},
    {"unet_256_64",           CONV_ROW_FULL,  4,  256,  64,  256, 3, 1, 1, 1},
    {"unet_512_32",           CONV_ROW_FULL,  4,  512,  32,  512, 3, 1, 1, 1},
    {"unet_512_1024_16",      CONV_ROW_FULL,  4,  512,  16, 1024, 3, 1, 1, 1},
    {"unet_1024_512_32",      CONV_ROW_FULL,  4, 1024,  32,  512, 3, 1, 1, 1},
    {"unet_256_128_128",      CONV_ROW_FULL,  4,  256, 128,  128, 3, 1, 1, 1},
    {"unet_128_64_256",       CONV_ROW_FULL,  4,  128, 256,   64, 3, 1, 1, 1},
    {"resnet_conv2_1x1",      CONV_ROW_POINTWISE, 32,   64,  56,  256, 1, 1, 1, 0},
    {"resnet_conv4_1x1",      CONV_ROW_POINTWISE, 32, 1024,  14,  256, 1, 1, 1, 0},
    {"resnet_conv5_1x1",      CONV_ROW_POINTWISE, 32,  512,   7, 2048, 1, 1, 1, 0},
    {"convnext_96_1x1",       CONV_ROW_POINTWISE, 32,   96,  56,  384, 1, 1, 1, 0},
    {"convnext_768_1x1",      CONV_ROW_POINTWISE, 32,  768,   7, 3072, 1, 1, 1, 0},
    {"convnext_96_dw7x7",     CONV_ROW_DEPTHWISE, 32,   96,  56,   96, 7,  96, 1, 3},
    {"convnext_384_dw7x7",    CONV_ROW_DEPTHWISE, 32,  384,  14,  384, 7, 384, 1, 3},
    {"mobilenet_192_dw3x3",   CONV_ROW_DEPTHWISE, 32,  192,  28,  192, 3, 192, 1, 1},
    {"mobilenet_96_dw3x3s2",  CONV_ROW_DEPTHWISE, 32,   96, 112,   96, 3,  96, 2, 1},
    {"mobilenet_576_dw5x5",   CONV_ROW_DEPTHWISE, 32,  576,  14,  576, 5, 576, 1, 2},
};
/* clang-format on */
const unsigned conv_layer_count = sizeof conv_layers / sizeof *conv_layers;

struct conv_problem conv_layer_problem(const struct conv_layer *layer, enum gemmd_dtype dtype,
                                       bool nchw)
{
    struct conv_problem problem = {
        .dtype = dtype,
        .out = dtype_default_out(dtype),
        .precision = dtype == GEMMD_F32 ? GEMM_PRECISION_TF32 : GEMM_PRECISION_FULL,
        .alpha = 1,
        .shape = {.layout = nchw ? CONV_NCHW : CONV_NHWC,
                  .w_layout = nchw ? CONV_KCRS : CONV_KRSC,
                  .batch = layer->batch,
                  .channels = layer->channels,
                  .height = layer->side,
                  .width = layer->side,
                  .filters = layer->filters,
                  .r = layer->taps,
                  .s = layer->taps,
                  .groups = layer->groups,
                  .stride_h = layer->stride,
                  .stride_w = layer->stride,
                  .dilation_h = 1,
                  .dilation_w = 1,
                  .pad_top = layer->padding,
                  .pad_bottom = layer->padding,
                  .pad_left = layer->padding,
                  .pad_right = layer->padding},
    };
    struct fault fault;
    (void)conv_shape_settle(&problem.shape, &fault);
    return problem;
}
