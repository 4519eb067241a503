"""What a convolution should be: the sums in float64, and how far rounding can be from them."""

import dataclasses

import numpy as np

from matrices import NUMPY, activate


@dataclasses.dataclass
class Conv2d:
    channels: int
    height: int
    width: int
    filters: int
    r: int
    s: int
    batch: int = 1
    groups: int = 1
    stride: tuple = (1, 1)
    dilation: tuple = (1, 1)
    padding: tuple = (0, 0, 0, 0)
    layout: str = "nchw"
    w_layout: str = "kcrs"
    dtype: str = "f32"
    out: str = None
    precision: str = None
    alpha: float = 1
    bias: bool = False
    act: str = "none"
    kernel: str = "auto"

    @property
    def result(self):
        return self.out or ("i32" if self.dtype == "i8" else self.dtype)

    def parameters(self):
        return {
            "batch": self.batch, "channels": self.channels, "height": self.height,
            "width": self.width, "filters": self.filters, "filter_h": self.r, "filter_w": self.s,
            **self.options(),
        }

    def options(self):
        """The parameters that arrays do not give."""
        options = {
            "groups": self.groups, "stride": ",".join(map(str, self.stride)),
            "dilation": ",".join(map(str, self.dilation)),
            "padding": self.padding if self.padding == "same" else ",".join(map(str, self.padding)),
            "layout": self.layout, "w_layout": self.w_layout, "dtype": self.dtype,
            "alpha": self.alpha, "bias": int(self.bias), "act": self.act, "kernel": self.kernel,
        }
        if self.out:
            options["out"] = self.out
        if self.precision:
            options["precision"] = self.precision
        return options

    def sides(self):
        if self.padding != "same":
            return self.padding
        sides = []
        for size, taps, stride, dilation in ((self.height, self.r, self.stride[0], self.dilation[0]),
                                             (self.width, self.s, self.stride[1], self.dilation[1])):
            needed = (-(-size // stride) - 1) * stride + (taps - 1) * dilation + 1
            total = max(needed - size, 0)
            sides += [total // 2, total - total // 2]
        return tuple(sides)


def random_operands(problem, rng):
    """X, W and the bias or None, in the request's layouts."""
    p = problem
    x, w = [p.batch, p.channels, p.height, p.width], [p.filters, p.channels // p.groups, p.r, p.s]
    if p.layout == "nhwc":
        x = [x[0], x[2], x[3], x[1]]
    if p.w_layout == "krsc":
        w = [w[0], w[2], w[3], w[1]]

    def draw(shape, dtype):
        if dtype in ("i8", "i32"):
            return rng.integers(-100, 100, shape).astype(NUMPY[dtype])
        return rng.uniform(-1, 1, shape).astype(NUMPY[dtype])

    return draw(x, p.dtype), draw(w, p.dtype), draw([p.filters], p.result) if p.bias else None


def raw(operands):
    return b"".join(array.tobytes() for array in operands if array is not None)


def wide(array):
    return array.astype(np.float32).astype(np.float64) if array.dtype.itemsize == 2 else (
        array.astype(np.float64))


def sums(problem, x, w):
    """[batch, filters, out_height, out_width] of X [batch, channels, ...] and W [filters, ...]."""
    p = problem
    top, bottom, left, right = p.sides()
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    rows = (x.shape[2] - (p.r - 1) * p.dilation[0] - 1) // p.stride[0] + 1
    columns = (x.shape[3] - (p.s - 1) * p.dilation[1] - 1) // p.stride[1] + 1
    x = x.reshape(p.batch, p.groups, -1, *x.shape[2:])
    w = w.reshape(p.groups, -1, *w.shape[1:])
    total = np.zeros((p.batch, p.groups, w.shape[1], rows, columns))
    for u in range(p.r):
        for v in range(p.s):
            y0, x0 = u * p.dilation[0], v * p.dilation[1]
            part = x[..., y0:y0 + (rows - 1) * p.stride[0] + 1:p.stride[0],
                     x0:x0 + (columns - 1) * p.stride[1] + 1:p.stride[1]]
            total += np.einsum("bgchw,gfc->bgfhw", part, w[..., u, v])
    return total.reshape(p.batch, p.filters, rows, columns)


def assert_right(problem, operands, payload):
    p = problem
    x, w, bias = operands
    x, w = wide(x), wide(w)
    if p.layout == "nhwc":
        x = x.transpose(0, 3, 1, 2)
    if p.w_layout == "krsc":
        w = w.transpose(0, 3, 1, 2)
    added = 0 if bias is None else wide(bias)[None, :, None, None]
    exact = p.alpha * sums(p, x, w) + added
    magnitude = abs(p.alpha) * sums(p, np.abs(x), np.abs(w)) + np.abs(added)
    wanted = activate(p.act, exact)
    got = np.frombuffer(payload, NUMPY[p.result])
    shape = wanted.shape if p.layout == "nchw" else tuple(wanted.shape[i] for i in (0, 2, 3, 1))
    assert got.size == wanted.size, f"{got.size} elements, not {wanted.size}"
    got = got.reshape(shape)
    if p.layout == "nhwc":
        got = got.transpose(0, 3, 1, 2)
    if p.result == "i32":
        assert np.array_equal(got.astype(np.int64), wanted.astype(np.int64))
        return
    k = p.channels // p.groups * p.r * p.s
    unit = {"f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}[p.result]
    error = 2 * (k + 12) * 2.0**-24 * magnitude * 1.2 + 2.0**-18 * np.abs(wanted)
    if p.precision == "tf32":
        error += 2.0**-9 * magnitude * 1.2
    error += unit * (np.abs(wanted) + error) + 1e-7
    worst = np.max(np.abs(wide(got) - wanted) / error)
    assert worst <= 1, f"{p}: {worst:.3g} times what rounding explains"
