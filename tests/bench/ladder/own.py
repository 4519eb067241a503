"""Our kernels, through library.c."""

import ctypes


class Own:
    """The library of a build, on a stream of PyTorch's."""

    def __init__(self, path, stream):
        library = self.library = ctypes.CDLL(path)
        library.gemmd_bench_ladder_open.restype = ctypes.c_void_p
        library.gemmd_bench_ladder_open.argtypes = [ctypes.c_void_p]
        library.gemmd_bench_ladder_revision.restype = ctypes.c_char_p
        library.gemmd_bench_ladder_product.argtypes = [
            ctypes.c_void_p,
            ctypes.c_char_p,
            ctypes.c_int,
            ctypes.c_int,
            ctypes.c_uint64,
        ] + [ctypes.c_void_p] * 4
        library.gemmd_bench_ladder_attention.argtypes = [
            ctypes.c_void_p,
            ctypes.c_char_p,
            ctypes.POINTER(ctypes.c_uint64),
            ctypes.c_int,
        ] + [ctypes.c_void_p] * 4
        self.handle = library.gemmd_bench_ladder_open(stream.cuda_stream)
        if not self.handle:
            raise RuntimeError("no memory or no GPU for our kernels")
        self.revision = library.gemmd_bench_ladder_revision().decode()

    def product_call(self, name, a, b, c, bias=None):
        """A function of the number of a set, for tensors [sets, n, n]; the bias is [n]."""
        n, half = a.shape[1], a.element_size() == 2

        def run(i):
            code = self.library.gemmd_bench_ladder_product(
                self.handle, name.encode(), half, bias is not None, n, a[i].data_ptr(),
                b[i].data_ptr(), bias.data_ptr() if bias is not None else None, c[i].data_ptr(),
            )  # fmt: skip
            if code != 0:
                raise RuntimeError(f"{name}: error {code}")

        return run

    def attention_call(self, q, k, v, o, causal):
        """A function of the number of a set, for f16 tensors [sets, batch, heads, length, d]."""
        shape = (ctypes.c_uint64 * 4)(*q.shape[1:])

        def run(i):
            code = self.library.gemmd_bench_ladder_attention(
                self.handle, b"auto", shape, causal, q[i].data_ptr(), k[i].data_ptr(),
                v[i].data_ptr(), o[i].data_ptr(),
            )  # fmt: skip
            if code != 0:
                raise RuntimeError(f"attention: error {code}")

        return run
