"""Packed weights: files as tools that quantise write them are kept, given back, and multiplied by. The files are
written here from random integers, without the tools."""

import hashlib
import io

import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy

from daemon import Daemon
from failing_cuda import program_of
from test_tensors import NPY, RAW, SAFETENSORS, Tensors

BF16 = np.dtype(ml_dtypes.bfloat16)
F8 = np.dtype(ml_dtypes.float8_e4m3fn)
TYPES = {np.dtype(np.int32): "I32", np.dtype(np.int64): "I64", np.dtype(np.float16): "F16",
         np.dtype(np.float32): "F32", BF16: "BF16", F8: "F8_E4M3", np.dtype(np.int8): "I8", np.dtype(np.uint8): "U8"}
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def words(integers, axis, bits, order=None):
    """Integers in words of 32 bits along an axis, the first one of a word in the lowest bits."""
    each = 32 // bits
    rows = np.moveaxis(integers, axis, -1).astype(np.uint32)
    parts = rows.reshape(*rows.shape[:-1], -1, each)[..., order or list(range(each))]
    joined = (parts << (bits * np.arange(each, dtype=np.uint32))).sum(-1, dtype=np.uint32)
    return np.ascontiguousarray(np.moveaxis(joined, -1, axis)).view(np.int32)


# The type of the weights, the name of their tensor, and the name and value of the factor of the whole matrix.
ROWS_OF_BYTES = {"int-quantized": ("i8", "weight", None), "float-quantized": ("f8_e4m3", "weight", None),
                 "mxfp4": ("f4_e2m1", "weight_packed", None),
                 "nvfp4": ("f4_e2m1", "weight_packed", ("weight_global_scale", 448.5)),
                 "nvfp4_modelopt": ("f4_e2m1", "weight", ("weight_scale_2", 0.0031))}


class Packed:
    """Random weights of k x n, and the tensors of their file in the order of the contract's table."""

    def __init__(self, form, bits, k, n, group, rng, scale=np.float16, zeros=True):
        self.format, self.bits, self.k, self.n, self.group = form, bits, k, n, group
        if form in ROWS_OF_BYTES:
            self._write_bytes(rng, scale, zeros)
            return
        groups, most = k // group, 2**bits
        q = rng.integers(0, most, (k, n))
        z = rng.integers(1, most, (groups, n)) if zeros else np.full((groups, n), most // 2)
        s = rng.uniform(0, 0.02, (groups, n)).astype(scale)
        s[0, 0] = 0
        self.weights = (q - z.repeat(group, 0)) * s.astype(np.float64).repeat(group, 0)
        self.type = ("u" if zeros else "i") + str(bits)
        if form == "compressed-tensors":
            self.tensors = {"weight_packed": words(q.T, 1, bits),
                            "weight_scale": np.ascontiguousarray(s.T)}
            if zeros:
                self.tensors["weight_zero_point"] = words(z.T, 0, bits)
            self.tensors["weight_shape"] = np.array([n, k], np.int64)
        elif form == "awq":
            self.tensors = {"qweight": words(q, 1, bits, AWQ_ORDER), "scales": s,
                            "qzeros": words(z, 1, bits, AWQ_ORDER)}
        else:
            self.tensors = {"qweight": words(q, 0, bits), "scales": s,
                            "qzeros": words(z - (form == "gptq"), 1, bits),
                            "g_idx": (np.arange(k) // group).astype(np.int32)}

    def _write_bytes(self, rng, scale, zeros):
        """Formats whose weights are bytes, or pairs of numbers of 4 bits in bytes, in rows of k."""
        k, n, groups = self.k, self.n, self.k // self.group
        self.type, weights, factor = ROWS_OF_BYTES[self.format][:3]
        s = rng.uniform(0, 0.02, (n, groups)).astype(scale)
        z, values, others = np.zeros((n, groups)), None, {}
        if self.format == "int-quantized":
            q = rng.integers(-128, 128, (n, k), np.int8)
            if zeros:
                z = others["weight_zero_point"] = rng.integers(-128, 128, (n, groups), np.int8)
                self.type = "u8"
            values = q.astype(np.float64)
        elif self.format == "float-quantized":
            q = rng.uniform(-20, 20, (n, k)).astype(F8)
            values = q.astype(np.float64)
        else:
            numbers = rng.integers(0, 16, (n, k), np.uint8)
            q, values = numbers[:, ::2] | numbers[:, 1::2] << 4, E2M1[numbers]
            if factor is None:
                s = rng.integers(115, 125, (n, groups), np.uint8)
            else:
                s = rng.uniform(0, 3, (n, groups)).astype(F8)
        s[0, 0] = 0
        wide = 2.0**(s.astype(np.float64) - 127) if s.dtype == np.uint8 else s.astype(np.float64)
        if factor is not None:
            name, of_all = factor
            others[name] = np.array([of_all], np.float32)
            wide = wide / of_all if self.format == "nvfp4" else wide * of_all
        self.weights = ((values - z.astype(np.float64).repeat(self.group, 1)) * wide.repeat(self.group, 1)).T
        self.tensors = {weights: q, "weight_scale": s, **others}

    def body(self, **other):
        tensors = {name: tensor for name, tensor in (self.tensors | other).items() if tensor is not None}
        return safetensors.numpy.save(tensors)

    def parameters(self):
        return {"format": self.format} | ({"bits": 8} if self.bits == 8 and self.format not in ROWS_OF_BYTES else {})

    def etag(self):
        """As PROTOCOL.md says any client can compute it."""
        sha = hashlib.sha256(f"{self.format}:{self.bits}\n".encode())
        for name, tensor in self.tensors.items():
            shape = ",".join(map(str, tensor.shape))
            sha.update(f"{name}:{TYPES[tensor.dtype]}:{shape}\n".encode() + tensor.tobytes())
        return f'"{sha.hexdigest()}"'


CASES = {
    "compressed-tensors": dict(form="compressed-tensors", bits=4, k=256, n=136, group=128, scale=BF16, zeros=False),
    "compressed-tensors zero points": dict(form="compressed-tensors", bits=4, k=192, n=72, group=32),
    "compressed-tensors 8 bits": dict(form="compressed-tensors", bits=8, k=160, n=40, group=160, scale=np.float32,
                                      zeros=False),
    "gptq": dict(form="gptq", bits=4, k=256, n=264, group=64),
    "gptq 8 bits": dict(form="gptq", bits=8, k=128, n=24, group=128),
    "gptq_v2": dict(form="gptq_v2", bits=4, k=96, n=64, group=32),
    "awq": dict(form="awq", bits=4, k=384, n=320, group=128),
    "int-quantized": dict(form="int-quantized", bits=8, k=160, n=56, group=160, scale=BF16, zeros=False),
    "int-quantized zero points": dict(form="int-quantized", bits=8, k=256, n=40, group=128),
    "float-quantized": dict(form="float-quantized", bits=8, k=192, n=72, group=64, scale=BF16),
    "mxfp4": dict(form="mxfp4", bits=4, k=288, n=136, group=32),
    "nvfp4": dict(form="nvfp4", bits=4, k=352, n=264, group=16),
    "nvfp4_modelopt": dict(form="nvfp4_modelopt", bits=4, k=96, n=24, group=16),
}
TYPES_TAKEN = ["i4", "u4", "i8", "u8", "f4_e2m1", "f8_e4m3"]


@pytest.fixture(scope="module")
def tensors(url):
    return Tensors(url)


@pytest.fixture
def put(tensors, request):
    """put(packed) -> the name of the weights, which go with the test; put(packed, 400) -> the refusal's text."""
    names = []

    def putter(packed, status=201, body=None, media_type=SAFETENSORS, **other):
        name = f"packed.{len(names)}.{abs(hash(request.node.nodeid))}"
        answer = tensors.send("PUT", name, packed.body() if body is None else body, {"Content-Type": media_type},
                              **(packed.parameters() | other))
        assert answer.status_code == status, answer.text
        if status != 201:
            return answer.json()["detail"]
        names.append(name)
        return name

    yield putter
    for name in names:
        tensors.send("DELETE", name)


def assert_restored(body, packed):
    back = {name: (tensor["dtype"], tensor["shape"], bytes(tensor["data"]))
            for name, tensor in safetensors.deserialize(body)}
    assert back == {name: (TYPES[tensor.dtype], list(tensor.shape), tensor.tobytes())
                    for name, tensor in packed.tensors.items()}


def random_rows(m, k, dtype, rng):
    return rng.uniform(-1, 1, (m, k)).astype(dtype)


def assert_near(answer, out, a, weights, m, n):
    """Each element is within (k + 8) u S of the exact one, and then rounded to the type of the result."""
    assert answer.status_code == 200, answer.text
    got = np.frombuffer(answer.content, out).reshape(m, n).astype(np.float64)
    exact, magnitude = a.astype(np.float64) @ weights, np.abs(a.astype(np.float64)) @ np.abs(weights)
    rounding = {np.dtype(np.float32): 0, BF16: 2.0**-8, np.dtype(np.float16): 2.0**-11}[np.dtype(out)]
    bound = (a.shape[1] + 8) * 2.0**-24 * magnitude
    bound += (np.abs(exact) + bound) * rounding + 2.0**-25 * (out == np.float16)
    assert (np.abs(got - exact) <= bound).all()


@pytest.mark.parametrize("case", CASES)
def test_a_file_is_given_back_and_multiplied_by(case, put, post, tensors, rng):
    packed = Packed(rng=rng, **CASES[case])
    name = put(packed)
    kept = tensors.get(name)
    assert kept.status_code == 200, kept.text
    assert_restored(kept.content, packed)
    assert (kept.headers["Content-Type"], kept.headers["Gemmd-Dtype"]) == (SAFETENSORS, packed.type)
    assert kept.headers["Gemmd-Shape"] == f"{packed.k},{packed.n}"
    assert kept.headers["ETag"] == packed.etag()
    for dtype, kind in (("bf16", BF16), ("f16", np.dtype(np.float16))):
        for m, out, out_kind in ((1, dtype, kind), (7, "f32", np.dtype(np.float32))):
            a = random_rows(m, packed.k, kind, rng)
            answer = post({"b": name, "m": m, "dtype": dtype, "out": out}, a.tobytes())
            assert_near(answer, out_kind, a, packed.weights, m, packed.n)


def test_the_description(put, tensors, rng):
    packed = Packed(rng=rng, **CASES["gptq"])
    name = put(packed)
    entry = next(tensor for tensor in tensors.get().json()["tensors"] if tensor["name"] == name)
    assert (entry["dtype"], entry["shape"]) == ("u4", [packed.k, packed.n])
    assert (entry["format"], entry["group"], entry["etag"]) == ("gptq", packed.group, packed.etag())
    assert entry["bytes"] == sum(tensor.nbytes for tensor in packed.tensors.values())


def test_info_lists_the_types_that_kernels_take(session, url):
    info = session.get(f"{url}/info").json()
    takes = {kernel["name"]: kernel["packed"] for kernel in info["kernels"] if "packed" in kernel}
    kernel = {"cpu": "tiled", "cuda": "packed"}[info["devices"][0]["backend"]]
    assert takes == {kernel: TYPES_TAKEN}


def test_the_bits_of_a_row_do_not_depend_on_the_others(put, post, rng):
    packed = Packed(rng=rng, **CASES["awq"])
    name = put(packed)
    a = random_rows(40, packed.k, BF16, rng)
    whole = post({"b": name, "m": 40, "dtype": "bf16"}, a.tobytes()).content
    rows = [post({"b": name, "m": 1, "dtype": "bf16"}, row.tobytes()).content for row in a]
    assert b"".join(rows) == whole


def test_all_that_follows_the_sum(put, post, rng):
    packed = Packed(rng=rng, **CASES["compressed-tensors"])
    name = put(packed)
    a, bias = random_rows(3, packed.k, BF16, rng), random_rows(1, packed.n, np.float32, rng)
    c0 = random_rows(3, packed.n, np.float32, rng)
    answer = post({"b": name, "m": 3, "dtype": "bf16", "out": "f32", "bias": 1, "beta": 2, "alpha": 0.5,
                   "act": "relu"}, a.tobytes() + bias.tobytes() + c0.tobytes())
    assert answer.status_code == 200, answer.text
    expected = np.maximum(0.5 * (a.astype(np.float64) @ packed.weights) + 2.0 * c0 + bias, 0)
    assert np.allclose(np.frombuffer(answer.content, np.float32).reshape(3, -1), expected, atol=1e-4)


def test_batches_arrays_and_stored_results(put, post, tensors, rng):
    packed = Packed(rng=rng, **CASES["gptq"])
    name = put(packed)
    a = random_rows(6, packed.k, np.float16, rng)
    plain = post({"b": name, "m": 6, "dtype": "f16"}, a.tobytes()).content
    batch = post({"b": name, "m": 2, "batch": 3, "dtype": "f16"}, a.tobytes())
    assert batch.content == plain, batch.text
    body = io.BytesIO()
    np.save(body, a.reshape(2, 3, -1))
    array = post({"b": name}, body.getvalue(), NPY, Accept=RAW)
    assert array.content == plain, array.text
    file = post({"b": name}, safetensors.numpy.save({"a": a}), SAFETENSORS, Accept=RAW)
    assert file.content == plain, file.text
    columns = post({"b": name, "m": 6, "dtype": "f16", "transa": 1}, a.T.tobytes())
    assert columns.content == plain, columns.text
    rows = name + ".rows"
    try:
        assert tensors.put(rows, a).status_code == 201
        assert post({"a": rows, "b": name}, b"").content == plain
        assert post({"a": rows, "b": name, "store": rows}, b"").status_code == 201
        assert tensors.get(rows).content == plain
    finally:
        tensors.send("DELETE", rows)


def test_the_tag_saves_an_upload(put, tensors, rng):
    packed = Packed(rng=rng, **CASES["awq"])
    name = put(packed)
    again = tensors.send("PUT", name, packed.body(), {"Content-Type": SAFETENSORS, "If-None-Match": packed.etag()},
                         **packed.parameters())
    assert again.status_code == 412
    assert tensors.get(name, **{"If-None-Match": packed.etag()}).status_code == 304
    other = Packed(rng=rng, **CASES["gptq"])
    replaced = tensors.send("PUT", name, other.body(), {"Content-Type": SAFETENSORS, "If-Match": packed.etag()},
                            **other.parameters())
    assert (replaced.status_code, replaced.headers["ETag"]) == (200, other.etag())


def test_large_weights(put, post, tensors, rng):
    """They arrive, and are given back, in many pieces."""
    packed = Packed("gptq", 4, 2048, 2072, 128, rng)
    name = put(packed)
    assert_restored(tensors.get(name).content, packed)
    a = random_rows(1, packed.k, np.float16, rng)
    answer = post({"b": name, "m": 1, "dtype": "f16", "out": "f32"}, a.tobytes())
    assert_near(answer, np.dtype(np.float32), a, packed.weights, 1, packed.n)


def test_an_upload_in_chunks_is_refused(put, rng):
    packed = Packed(rng=rng, **CASES["gptq"])
    assert put(packed, 400, body=iter([packed.body()])) == (
        "packed weights need a Content-Length and no Content-Encoding")


def test_what_cannot_be_taken_is_refused(put, rng):
    packed = Packed(rng=rng, **CASES["gptq"])
    groups = packed.k // packed.group
    scales, zeros, order = (packed.tensors[name].copy() for name in ("scales", "qzeros", "g_idx"))
    scales[1, 2] = -1
    assert put(packed, 400, packed.body(scales=scales)).startswith(f"element {packed.n + 2} of scales is negative")
    zeros[0, 0] |= 15
    assert put(packed, 400, packed.body(qzeros=zeros)).startswith("integer 0 of qzeros is 15")
    assert put(packed, 422, packed.body(g_idx=order[::-1].copy())).startswith(f"element 0 of g_idx is {groups - 1}")
    assert "'g_jdx' is no tensor of gptq" in put(packed, 400, packed.body(g_jdx=order, g_idx=None))
    assert "'qzeros' is missing" in put(packed, 400, packed.body(qzeros=None))
    assert "it must be F16, BF16 or F32" in put(packed, 400, packed.body(scales=scales.astype(np.float64)))
    assert "beside the other tensors" in put(packed, 400, bits=8)
    assert put(packed, 400, media_type=RAW).startswith("format=gptq needs a safetensors body")
    assert put(packed, 400, dtype="f16").startswith("dtype must be left out")
    assert put(packed, 400, format="none", bits=8).startswith("bits is for packed weights")
    assert put(packed, 400, format="gguf").startswith("format is 'gguf'")
    assert put(packed, 400, bits=3).startswith("bits is '3'; it must be 4 or 8")
    assert put(packed, 422, format="awq", bits=8).startswith("format=awq is offered with bits=4")
    assert put(packed, 400, body=packed.body()[:-1])


@pytest.mark.parametrize("case", [case for case in CASES if CASES[case]["form"] in ROWS_OF_BYTES])
def test_what_cannot_be_taken_of_rows_of_bytes(case, put, rng):
    packed = Packed(rng=rng, **CASES[case])
    weights, scales = list(packed.tensors)[:2]
    other = packed.tensors[scales].copy()
    other[1, 0] = 255 if packed.format == "mxfp4" else np.nan
    refusal = put(packed, 400, packed.body(**{scales: other}))
    assert refusal.startswith(f"element {other.shape[1]} of {scales} is negative")
    assert "it must be of" in put(packed, 400, packed.body(**{weights: packed.tensors[weights].astype(np.int32)}))
    assert put(packed, 400, packed.body(**{scales: packed.tensors[scales][:-8]})).startswith(f"{scales} has the shape")
    assert "it must be" in put(packed, 400, packed.body(**{scales: packed.tensors[scales].astype(np.float64)}))
    assert f"'{scales}' is missing" in put(packed, 400, packed.body(**{scales: None}))
    other_width = put(packed, 422, bits=12 - packed.bits)
    assert other_width.startswith(f"format={packed.format} is offered with bits={packed.bits}")
    if packed.format.startswith("nvfp4"):
        factor = list(packed.tensors)[2]
        for bad in (0, -1, np.inf, np.nan):
            assert "must be positive and finite" in put(packed, 400, packed.body(**{factor: np.float32([bad])}))
        assert f"'{factor}' is missing" in put(packed, 400, packed.body(**{factor: None}))
        two = packed.body(**{factor: np.ones(2, np.float32)})
        assert put(packed, 400, two).startswith(f"{factor} has the shape 2;")
    if packed.format != "mxfp4":
        return
    wide = np.ascontiguousarray(packed.tensors[scales][:, ::3])  # Groups of 96 steps.
    assert put(packed, 422, packed.body(**{scales: wide})).endswith("groups must have 32 steps")


def test_nan_among_weights_is_in_the_result(put, post, rng):
    packed = Packed(rng=rng, **CASES["float-quantized"])
    packed.tensors["weight"][3, 5] = np.nan
    a = random_rows(2, packed.k, BF16, rng)
    answer = post({"b": put(packed), "m": 2, "dtype": "bf16"}, a.tobytes())
    found = np.isnan(np.frombuffer(answer.content, BF16).reshape(2, -1).astype(np.float32))
    assert found[:, 3].all() and found.sum() == 2


def test_the_factor_of_a_scalar_and_alpha(put, post, tensors, rng):
    packed = Packed(rng=rng, **CASES["nvfp4_modelopt"])
    packed.tensors["weight_scale_2"] = packed.tensors["weight_scale_2"].reshape(())
    name = put(packed)
    assert_restored(tensors.get(name).content, packed)
    a = random_rows(3, packed.k, np.float16, rng)
    answer = post({"b": name, "m": 3, "dtype": "f16", "out": "f32", "alpha": -3}, a.tobytes())
    assert_near(answer, np.dtype(np.float32), a, packed.weights * -3, 3, packed.n)


def test_products_that_packed_weights_cannot_be_in(put, post, session, url, tensors, rng):
    packed = Packed(rng=rng, **CASES["gptq"])
    name = put(packed)

    def refused(path, parameters, body=b""):
        answer = session.post(f"{url}{path}", params=parameters, data=body, headers={"Content-Type": RAW})
        assert answer.status_code == 422, answer.text
        return answer.json()["detail"]

    only_b = f"the tensor '{name}' is packed weights, which can only be b of /gemm"
    row = {"b": name, "m": 1, "dtype": "bf16"}
    assert refused("/gemm", {"a": name, "n": 4}) == only_b
    assert refused("/reduce", {"x": name, "op": "sum"}) == only_b
    assert refused("/softmax", {"x": name}) == only_b
    assert refused("/attention", {"k": name, "sq": 1, "d": 8, "heads": 1}) == only_b
    assert refused("/conv2d", {"w": name, "height": 8}) == only_b
    assert refused("/gemm", {"b": name, "m": 1}) == ("operands of f32 are not offered with packed weights; f16 and "
                                                     "bf16 are")
    assert refused("/gemm", row | {"transb": 1}).startswith("transb must be 0")
    assert refused("/gemm", row | {"scales": "rowcol"}).startswith("scales must be none")
    assert refused("/gemm", row | {"verify": "freivalds"}).startswith("verify=freivalds is not offered")
    able = {"cpu": "tiled", "cuda": "packed"}
    backend = session.get(f"{url}/info").json()["devices"][0]["backend"]
    assert refused("/gemm", row | {"kernel": "naive"}, bytes(2 * packed.k)) == (
        f"kernel 'naive' cannot compute bf16 to bf16 of 1 x {packed.n} x {packed.k} with packed weights of u4 on the "
        f"{backend} backend; these can: {able[backend]}")
    wrong = post(row | {"k": packed.k + 1}, b"")
    assert (wrong.status_code, wrong.json()["field"]) == (400, "k")
    unacceptable = tensors.get(name, Accept=NPY)
    assert unacceptable.status_code == 406
    assert unacceptable.json()["detail"] == "Accept can name application/vnd.safetensors for packed weights"


def test_a_simulated_gpu_keeps_and_multiplies(gemmd, rng):
    """The daemon's CUDA device, with the kernels of the CPU: tests/gpu checks those of a GPU."""
    program = program_of(gemmd)
    if program is None or program.name != "gemmd-simulated-cuda":
        pytest.skip("there is no build with a simulated GPU")
    daemon = Daemon(program, "--backend", "cuda", "--device-bytes", "16M", "--tensor-bytes", "16M", "--pinned-bytes",
                    "64M")
    try:
        url = daemon.wait_until_listening().wait_until_ready().url
        tensors = Tensors(url)
        takes, = [kernel["packed"] for kernel in daemon.session.get(f"{url}/info").json()["kernels"]
                  if "packed" in kernel]
        assert takes == TYPES_TAKEN
        for values in CASES.values():
            packed = Packed(rng=rng, **values)
            answer = tensors.send("PUT", "weights", packed.body(), {"Content-Type": SAFETENSORS},
                                  **packed.parameters())
            assert answer.status_code in (200, 201), answer.text
            assert_restored(tensors.get("weights").content, packed)
            for m in (1, 7):
                a = random_rows(m, packed.k, BF16, rng)
                answer = daemon.session.post(f"{url}/gemm", params={"b": "weights", "m": m, "dtype": "bf16"},
                                             data=a.tobytes(), headers={"Content-Type": RAW})
                assert_near(answer, BF16, a, packed.weights, m, packed.n)
                assert answer.headers["Gemmd-Kernel"] == "packed"
    finally:
        daemon.close()
