"""Requests per second that network, bus and GPU allow for each shape, from figures that were measured.

Every figure is of one NVIDIA H100 80GB HBM3 (driver 580.159.04) on a host of 16 cores, and names the
file that it is from. `tests/bench/results/` is left out of the names.
"""

import dataclasses
import math

NETWORK = {"100 Gbit/s": 100e9 / 8, "400 Gbit/s": 400e9 / 8}  # bytes a second, each way
PCIE = 55e9  # bytes a second each way between pinned memory and device: PERFORMANCE.md
MAPPED = 80e9  # both ways together, for kernels that read and write pinned memory: PERFORMANCE.md
TCP_IN = 87.0 * 2 * 4096 * 4096 * 4  # bytes of bodies that a daemon reads a second: ways-2026-11-22
TCP_BOTH = 87.0 * 3 * 4096 * 4096 * 4  # the same, with the results that it sends at the same time

SERVE = "serve-2026-11-22-1334"
WAYS = "ways-2026-11-22"
SERVED = "served-2026-11-22"
KERNELS = "kernels-2026-11-22-1018 (bf16)"
CUDNN = "attention-cudnn-2026-11-22"


@dataclasses.dataclass
class Shape:
    name: str
    received: int  # bytes of the request's body
    sent: int  # bytes of the result
    flop: float
    gpu: float  # requests a second that the kernels alone compute
    gpu_source: str
    http: float | None = None  # measured over HTTP on loopback, with everything in the request
    http_source: str = ""
    small: bool = False  # computed on pinned memory, without copies

    def network(self, rate):
        return rate / max(self.received, self.sent)

    @property
    def bus(self):
        if self.small:
            return MAPPED / (self.received + self.sent)
        return PCIE / max(self.received, self.sent)

    @property
    def served(self):
        """By HTTP: measured, or for large bodies derived from the bytes of 4096³; None: unknown."""
        if self.http or self.small:
            return self.http
        return TCP_BOTH / (self.received + self.sent)

    def limits(self, link):
        limits = {"network": self.network(NETWORK[link]), "PCIe": self.bus, "GPU": self.gpu}
        if self.served:
            limits["HTTP"] = self.served
        return limits

    def binding(self, link):
        return min(self.limits(link).items(), key=lambda item: item[1])


def product(name, m, n, k, size, tflops, source, resident=False, out=None, **more):
    flop = 2 * m * n * k
    received = m * k * size + (0 if resident else n * k * size)
    return Shape(name, received, m * n * (out or size), flop, tflops * 1e12 / flop, source, **more)


SHAPES = [
    # 1024 products take 0.069 ms in one launch of cuBLAS; gemmd's is 1.95 times as fast over mixed
    # sides and is counted as equal here.
    Shape("f32 64³", 2 * 64 * 64 * 4, 64 * 64 * 4, 2 * 64 ** 3, 1024 / 0.069e-3,
          "PERFORMANCE.md", 309717, SERVE, small=True),
    product("f32 1024³", 1024, 1024, 1024, 4, 74.2, SERVED, http=1454, http_source=SERVE),
    product("f32 4096³", 4096, 4096, 4096, 4, 121.6, SERVED, http=85, http_source=SERVE),
    product("bf16 4096³", 4096, 4096, 4096, 2, 703.1, KERNELS),
    product("bf16 8192³", 8192, 8192, 8192, 2, 688.9, KERNELS),
    # Rows of many requests share a launch: the GPU's figure is that of 64 rows.
    product("bf16 1×4096×4096, B resident", 1, 4096, 4096, 2, 150.2, KERNELS, resident=True,
            http=291591, http_source=SERVE, small=True),
    product("bf16 64×14336×4096, B resident", 64, 14336, 4096, 2, 178.2, KERNELS, resident=True),
    product("bf16 1024×4096×4096, B resident", 1024, 4096, 4096, 2, 661.8, KERNELS, resident=True),
    product("bf16 4096³, B resident", 4096, 4096, 4096, 2, 703.1, KERNELS, resident=True),
    # One query on 8192 keys, 32 heads of 128; the kernel reads K and V once, at 2711.5 GB/s.
    Shape("attention bf16, 1 query, 8192 keys, 32 heads, K and V resident", 32 * 128 * 2,
          32 * 128 * 2, 4 * 32 * 8192 * 128, 2711.5e9 / (2 * 32 * 8192 * 128 * 2), CUDNN, small=True),
]

# Requests a second with operands and result in shared memory of the same host (WAYS).
SHARED = [("f32 64³", 65484.3, 86781.8, 57593.0), ("f32 1024³", 1551.7, 5492.1, 21431.3),
          ("f32 4096³", 87.0, 358.0, 731.5)]


def figure(value):
    """Three significant digits."""
    if value >= 1000:
        places = 3 - len(str(int(value)))
        return f"{round(value, places):,.0f}"
    return f"{value:.3g}"


def size(count):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.4g} {unit}"
        count /= 1024
    raise AssertionError


def limits_table():
    yield ("| shape | in | out | FLOP per byte of body | 100 Gbit/s | 400 Gbit/s | PCIe | GPU alone | HTTP "
           "| binds at 100 Gbit/s | binds at 400 Gbit/s |")
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    for shape in SHAPES:
        cells = [shape.name, size(shape.received), size(shape.sent),
                 figure(shape.flop / (shape.received + shape.sent)),
                 *(figure(shape.network(rate)) for rate in NETWORK.values()), figure(shape.bus),
                 figure(shape.gpu), figure(shape.http) if shape.http else
                 f"≈ {figure(shape.served)}" if shape.served else "–"]
        for link in NETWORK:
            name, rate = shape.binding(link)
            cells.append(f"{name}: {figure(rate)}")
        yield f"| {' | '.join(cells)} |"


def sources_table():
    yield "| shape | GPU alone from | HTTP from |"
    yield "|---|---|---|"
    for shape in SHAPES:
        yield f"| {shape.name} | {shape.gpu_source} | {shape.http_source or ('not measured' if shape.small else 'derived')} |"


def shared_table():
    yield "| shape | TCP | memfd on a Unix socket | CUDA memory | memfd / TCP |"
    yield "|---|---|---|---|---|"
    for name, tcp, memfd, cuda in SHARED:
        yield f"| {name} | {figure(tcp)} | {figure(memfd)} | {figure(cuda)} | {memfd / tcp:.2f} |"


def intensity_table():
    """The side of a square product from which the GPU is the limit: n/element size is the FLOP for
    each byte of A and B."""
    yield "| type | GPU | operands arrive by | FLOP per byte that the GPU needs | from n = |"
    yield "|---|---|---|---|---|"
    for kind, size_bytes, tflops in (("f32", 4, 121.6), ("bf16", 2, 703.1)):
        for way, rate in (("100 Gbit/s", NETWORK["100 Gbit/s"]), ("400 Gbit/s", NETWORK["400 Gbit/s"]),
                          ("PCIe (shared memory)", PCIE)):
            needed = tflops * 1e12 / rate
            yield (f"| {kind} | {tflops} TFLOP/s | {way} | {figure(needed)} | "
                   f"{math.ceil(needed * size_bytes / 1000) * 1000:,} |")


def cost_table(price, use):
    yield (f"| shape | requests/s of a GPU (100 Gbit/s) | GPU-hours for 10⁹ requests at u = {use} "
           f"| example at p = {price} a GPU-hour |")
    yield "|---|---|---|---|"
    for shape in SHAPES:
        rate = shape.binding("100 Gbit/s")[1]
        hours = 1e9 / (rate * use * 3600)
        yield f"| {shape.name} | {figure(rate)} | {figure(hours)} | {figure(hours * price)} |"


def upload_table():
    """Seconds until one daemon has its tensors again, by one link."""
    yield "| tensors of a daemon | 25 Gbit/s | 100 Gbit/s | 400 Gbit/s |"
    yield "|---|---|---|---|"
    for name, count in (("1 GiB (the default of `--tensor-bytes`)", 2 ** 30), ("16 GiB", 2 ** 34),
                        ("40 GiB", 40 * 2 ** 30)):
        times = (count / min(link / 8, TCP_IN) for link in (25e9, 100e9, 400e9))
        yield f"| {name} | {' | '.join(f'{figure(seconds)} s' for seconds in times)} |"
