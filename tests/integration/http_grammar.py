"""Random HTTP in gemmd's own grammar: requests that are right, nearly right or wrong, and what a
client does with its connection. A seed gives the same conversation each time."""

import gzip
import io
import json
import os
import random
import socket
import struct
import zlib

import numpy as np

from oip import MODEL

F32 = np.arange(1, 5, dtype=np.float32)
OPERANDS = F32.tobytes() * 2
SHARED_KEY = "/gemmd-fuzz"  # an object in shared memory, which the test makes


def npy(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def safetensors(**arrays):
    header, data = {}, b""
    for name, array in arrays.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape),
                        "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


MATRIX = F32.reshape(2, 2)
BODIES = {
    "application/octet-stream": OPERANDS,
    "application/x-npy": npy(MATRIX) * 2,
    "application/vnd.safetensors": safetensors(a=MATRIX, b=MATRIX),
}
LENS = np.array([2, 1], np.int32)
# Targets and bodies of the operations on arrays; the arrays of a .npy body have their sizes.
CONV = "channels=1&height=2&width=2&filters=1&filter_h=2&filter_w=2"
ARRAYS = [
    ("/reduce?shape=2,2&op=logsumexp", "application/octet-stream", F32.tobytes()),
    ("/reduce?op=argmax&axis=0&keepdims=1", "application/x-npy", npy(MATRIX)),
    ("/reduce?store=t1", "application/vnd.safetensors", safetensors(x=MATRIX)),
    ("/reduce?x=t0&op=mean", "application/octet-stream", b""),
    ("/softmax?shape=2,2&lens=1&scale=0.5", "application/octet-stream", LENS.tobytes() + F32.tobytes()),
    ("/softmax?lens=1&log=1", "application/x-npy", npy(LENS) + npy(MATRIX)),
    ("/softmax?x=t1", "application/octet-stream", b""),
    ("/experts?m=2&n=2&k=2&count=1", "application/octet-stream", OPERANDS + np.array([0, -1], np.int32).tobytes()),
    ("/experts?glu=1&act=silu", "application/x-npy",
     npy(MATRIX) + npy(F32.reshape(1, 2, 2)) + npy(np.zeros((2, 1), np.int32))),
    ("/experts?w=t1&transb=1", "application/x-npy", npy(MATRIX) + npy(LENS)),
    (f"/conv2d?{CONV}&padding=same", "application/octet-stream", OPERANDS),
    ("/conv2d?padding=1,0&act=relu", "application/x-npy", npy(F32.reshape(1, 1, 2, 2)) * 2),
    ("/conv2d?layout=nhwc&w_layout=krsc", "application/vnd.safetensors",
     safetensors(x=F32.reshape(1, 1, 1, 4), w=F32.reshape(1, 1, 1, 4))),
]
METHODS = ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "BREW", "get", "", "G\0T"]
PATHS = ["/", "/livez", "/readyz", "/info", "/metrics", "/openapi.json", "/gemm", "/attention", "/reduce",
         "/softmax", "/conv2d", "/experts", "/tensors",
         "/tensors/{name}", "/sequences", "/sequences/{name}", "/sequences/{name}/append",
         "/sequences/{name}/truncate", "/sequences/{name}/kv", "/jobs", "/jobs/{id}", "/jobs/{id}/result", "/v2", "/v2/health/live", "/v2/health/ready",
         "/v2/models/{model}", "/v2/models/{model}/infer", "/v2/models/{model}/config", "/v2/models/{model}/stats",
         "/v2/models/{model}/versions/1/infer", "/v2/repository/index",
         "/v2/systemsharedmemory/status", "/v2/systemsharedmemory/region/{name}/register",
         "/v2/systemsharedmemory/region/{name}/unregister", "/v2/systemsharedmemory/unregister",
         "/v2/cudasharedmemory/status", "/v2/cudasharedmemory/region/{name}/register", "/nothing", "*",
         "http://x/livez", "//", "/%00", "/tensors/%2f", "/a b", "/../info"]
NUMBERS = ["0", "1", "2", "3", "64", "-1", "2147483647", "2147483648", "18446744073709551616", "1e3", "nan", "",
           "0x2", " 2", "1e-320"]
PARAMETERS = {
    "m": NUMBERS, "n": NUMBERS, "k": NUMBERS, "batch": NUMBERS, "alpha": NUMBERS, "beta": NUMBERS,
    "heads": NUMBERS, "kv_heads": NUMBERS, "sq": NUMBERS, "skv": NUMBERS, "d": NUMBERS, "dv": NUMBERS,
    "window": NUMBERS, "window_right": NUMBERS, "offset": NUMBERS, "alibi": ["0", "1"],
    "sinks": ["0", "1"], "mask": ["none", "add", "bool", "i8"], "mask_batch": NUMBERS,
    "mask_heads": NUMBERS, "mask_sq": NUMBERS, "scale": NUMBERS, "softcap": NUMBERS, "timeout_ms": NUMBERS, "wait_ms": NUMBERS,
    "priority": ["0", "4", "9", "10"], "dtype": ["f64", "f32", "f16", "bf16", "f8_e4m3", "i8", "i32", "f33"],
    "out": ["f32", "f64", "i32", "f16"], "precision": ["full", "tf32", "f8"],
    "act": ["none", "relu", "gelu", "gelu_tanh", "silu"],
    "transa": ["0", "1"], "transb": ["0", "1"], "bias": ["0", "1"], "causal": ["0", "1"], "lse": ["0", "1"],
    "lens": ["0", "1", "ragged"], "evictable": ["0", "1"], "layout": ["bhsd", "bshd", "nchw", "nhwc"],
    "verify": ["none", "freivalds"],
    "kernel": ["auto", "naive", "tiled", "none"], "store": ["t0", "t1", "a/b"], "a": ["t0", "t1"], "b": ["t0", "t1"],
    "v": ["t0"], "shape": ["2,2", "4", "1,2,2", "0", "2,", "2147483648,2147483648"], "after": ["t0", "", "%ff"],
    "op": ["sum", "max", "norm2", "argmax", "none"], "axis": ["0", "-1", "-2", "7", "-9"], "keepdims": ["0", "1"],
    "log": ["0", "1"], "x": ["t0"], "w": ["t0"], "padding": ["0", "same", "1,2", "1,2,3", "1,0,1,0"],
    "stride": ["1", "2,1", "0"], "dilation": ["1", "2147483647"], "groups": NUMBERS, "channels": NUMBERS,
    "height": NUMBERS, "width": NUMBERS, "filters": NUMBERS, "filter_h": NUMBERS, "filter_w": NUMBERS,
    "w_layout": ["kcrs", "krsc"], "scales": ["none", "rowcol", "block"], "contiguous": ["0", "1"],
    "sequence": ["t0", "t1"], "append": ["0", "1"], "position": NUMBERS, "layer": NUMBERS, "layers": NUMBERS,
    "length": NUMBERS, "count": NUMBERS, "topk": NUMBERS, "glu": ["0", "1"], "weights": ["0", "1"], "fork": ["t0", "t1"],
    "replicate": ["one", "all"], "format": ["none", "compressed-tensors", "gptq", "gptq_v2", "awq",
                                            "int-quantized", "float-quantized", "mxfp4", "nvfp4", "nvfp4_modelopt"],
    "bits": NUMBERS + ["4", "8"], "unknown": ["1"],
}
HEADERS = {
    "Expect": ["100-continue", "100-Continue", "more"], "Connection": ["close", "keep-alive", "upgrade"],
    "Transfer-Encoding": ["chunked", "gzip", "identity", "chunked, chunked"],
    "Content-Encoding": ["gzip", "deflate", "identity", "br", "gzip, gzip"],
    "Content-Length": NUMBERS + ["32", "31", "300000", "99999999"],
    "Content-Type": [*BODIES, "application/json", "text/plain", ""],
    "Accept": ["*/*", "application/x-npy", "application/vnd.safetensors;q=0.5, */*;q=nan", "image/png"],
    "Accept-Encoding": ["gzip", "deflate;q=2", "*;q=0"], "Prefer": ["respond-async", "wait=1", "respond-async, wait=0"],
    "If-Match": ["*", '"x"', 'W/"x"', "x"], "If-None-Match": ["*", '"x"', '"'],
    "Inference-Header-Content-Length": NUMBERS + ["5"],
    "Gemmd-Memory": ["a=0, b=16, c=32", "a=0", "x=0, y=32", "x=0, w=16, y=32", "c0=99999999", "a"],
    "traceparent": ["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-0-0-0"],
    "X-Request-Id": ["id", "a\tb", "x" * 200], "Authorization": ["Bearer token", "Basic eA==", "Bearer"],
    "Host": ["again"], "X-Long": ["x" * 3000], "X-NUL": ["a\0b"], "X-CR": ["a\rb"], "X-Fold": ["a\r\n b"], "X Space": ["a"],
    "Cookie": ["a=b"],
}


class Grammar:
    """`seed` is anything that random.Random takes. Most requests have one of the `tokens`, if there are any."""

    def __init__(self, seed, tokens=()):
        self.random = random.Random(seed)
        self.tokens = tokens

    def some(self, share):
        return self.random.random() < share

    def pick(self, list_):
        return self.random.choice(list_)

    # ---- requests ----

    def path(self):
        model = self.pick([MODEL["f32"], MODEL["f32"], "none", "attention_fp16"])
        return (self.pick(PATHS).replace("{name}", self.pick(["t0", "t1", "x" * 129, "."]))
                .replace("{id}", self.pick(["0" * 32, "none"])).replace("{model}", model))

    def query(self):
        names = self.random.choices(list(PARAMETERS), k=self.pick([0, 0, 1, 2, 4]))
        pairs = [f"{name}={self.pick(PARAMETERS[name])}" for name in names]
        if self.some(0.05):
            pairs.append(self.pick(["m", "=", "&", "%zz=1", "m=%00", "a" * 3000]))
        return "&".join(pairs)

    def infer(self):
        """An inference, which is right in most cases, and its length of JSON."""
        binary = self.some(0.4)
        inputs = []
        for name in ("A", "B"):
            entry = {"name": name, "shape": [2, 2], "datatype": "FP32"}
            if binary:
                entry["parameters"] = {"binary_data_size": 16}
            elif self.some(0.15):
                entry["parameters"] = {"shared_memory_region": "t0", "shared_memory_byte_size": 16}
            else:
                entry["data"] = self.pick([[1, 2, 3, 4], [[1, 2], [3, 4]], [1e39, 2, 3, 4]])
            inputs.append(entry)
        asked = {"inputs": inputs}
        if self.some(0.3):
            asked["outputs"] = [{"name": "C", "parameters": {"binary_data": self.some(0.5)}}]
        if self.some(0.2):
            asked["parameters"] = {self.pick(["alpha", "timeout", "priority", "none"]): self.pick([1, -1, "x"])}
        text = json.dumps(asked).encode()
        return text + OPERANDS * binary, len(text)

    def right_request(self):
        """Method, target, headers and body of a request that the daemon can serve."""
        kind = self.random.randrange(11)
        media = self.pick(list(BODIES))
        headers = [("Content-Type", media)]
        name = self.pick(["t0", "t1"])
        if kind < 3:
            target = "/gemm?m=2&n=2&k=2" if media == "application/octet-stream" else "/gemm"
            if self.some(0.3):
                headers.append(("Prefer", "respond-async"))
            return "POST", target, headers, BODIES[media]
        if kind == 3:
            return ("POST", "/attention?heads=1&sq=2&d=2&dtype=f32",
                    [("Content-Type", "application/octet-stream")], F32.tobytes() * 3)
        if kind == 4:
            return "PUT", f"/tensors/{name}", [("Content-Type", "application/x-npy")], npy(MATRIX)
        if kind == 5:
            return ("POST", f"/gemm?m=2&k=2&b={name}&store=t2",
                    [("Content-Type", "application/octet-stream")], F32.tobytes())
        if kind == 6:
            body, length = self.infer()
            return ("POST", f"/v2/models/{MODEL['f32']}/infer",
                    [("Content-Type", "application/octet-stream"), ("Inference-Header-Content-Length", length)], body)
        if kind == 7:
            body = json.dumps({"key": SHARED_KEY, "byte_size": self.pick([64, 64, 10**9, 0])}).encode()
            return "POST", f"/v2/systemsharedmemory/region/{name}/register", [], body
        if kind in (8, 9):
            target, media, body = self.pick(ARRAYS)
            asked = [("Prefer", "respond-async")] if self.some(0.3) else []
            return "POST", target, [("Content-Type", media), *asked], body
        return self.pick(["GET", "HEAD", "DELETE"]), self.path(), [], b""

    def wrong_request(self):
        query = self.query()
        body = self.pick([b"", OPERANDS, OPERANDS[:31], b"{}", b"[" * 500, BODIES["application/x-npy"], bytes(70000)])
        return self.pick(METHODS[:4] * 4 + METHODS), self.path() + ("?" + query if query else ""), [], body

    def chunked(self, body):
        """The body in chunks, which may be malformed."""
        out, end = b"", self.pick([b"\r\n"] * 12 + [b"\n"])
        while body:
            size = self.pick([1, 7, 16, 1000])
            piece, body = body[:size], body[size:]
            extension = self.pick([b""] * 6 + [b";x=y", b" "])
            out += b"%x" % len(piece) + extension + end + piece + end
        trailer = self.pick([b""] * 6 + [b"T: v\r\n", b"Content-Length: 9\r\n"])
        return out + self.pick([b"0"] * 12 + [b"00", b"-0", b"zz", b"", b"ffffffffffffffffff"]) + end + trailer + end

    def request(self):
        method, target, headers, body = self.right_request() if self.some(0.6) else self.wrong_request()
        if self.some(0.1) and body:
            coding = self.pick(["gzip", "deflate"])
            body = gzip.compress(body) if coding == "gzip" else zlib.compress(body)
            headers.append(("Content-Encoding", coding))
        if self.some(0.12):
            headers.append(("Transfer-Encoding", "chunked"))
            body = self.chunked(body)
        elif body or self.some(0.2):
            headers.append(("Content-Length", len(body) + (self.pick([-1, 1, 1000]) if self.some(0.06) else 0)))
        for _ in range(self.pick([0, 0, 0, 1, 1, 2, 3])):
            name = self.pick(list(HEADERS))
            headers.append((name, self.pick(HEADERS[name])))
        if self.some(0.1):
            headers.append(("Expect", "100-continue"))
        if self.tokens and self.some(0.8):
            headers.append(("Authorization", f"Bearer {self.pick(self.tokens)}"))
        if self.some(0.97):
            headers.insert(0, ("Host", "x"))
        version = self.pick(["HTTP/1.1"] * 20 + ["HTTP/1.0", "HTTP/1.2", "HTTP/2.0", "", "XTTP/1.1"])
        end = self.pick(["\r\n"] * 20 + ["\n", "\r"])
        colon = self.pick([": "] * 20 + [":", " : ", ":\t"])
        space = self.pick([" "] * 20 + ["  ", "\t"])
        lines = [f"{method}{space}{target}{space}{version}", *(f"{name}{colon}{value}" for name, value in headers)]
        return (end.join(lines) + end + end).encode("latin-1") + body

    def mutate(self, data):
        """Changes a few bytes, as a fuzzer that knows no grammar does."""
        data = bytearray(data)
        for _ in range(self.pick([1, 1, 2, 8])):
            at = self.random.randrange(len(data) + 1)
            change = self.random.randrange(4)
            if change == 0:
                data[at:at + 1] = bytes([self.random.randrange(256)])
            elif change == 1:
                del data[at:at + self.pick([1, 2, 20])]
            elif change == 2:
                data[at:at] = data[at:at + self.pick([1, 4, 40])]
            else:
                data[at:at] = self.pick([b"\0", b"\r\n", b"\n", b" ", b"%00", b"\xff", b"0" * 100])
        return bytes(data)

    def stream(self):
        """The bytes of one connection: one request or several, each behind the other."""
        data = b"".join(self.request() for _ in range(self.pick([1, 1, 1, 2, 3, 6])))
        data = self.mutate(data) if self.some(0.3) else data
        if self.some(0.2):
            data += self.pick([b"G", b"\r\n", b"\0", b"GET /", b"\r\n\r\n", bytes(2000)])
        return data[:self.random.randrange(len(data) + 1)] if self.some(0.15) else data

    # ---- connections ----

    def pieces(self, data):
        """Each piece, and the seconds to wait after it."""
        step = self.pick([len(data), len(data), 1 + len(data) // 2, 97, 1])
        step = max(step, 1 + len(data) // 60)
        pause_s = self.pick([0, 0, 0, 0.001, 0.02])
        return [(data[i:i + step], pause_s) for i in range(0, len(data), step)]

    def preface(self):
        """An empty line with a descriptor of shared memory, for a Unix socket. None: none is sent."""
        if not self.some(0.3):
            return None
        memory = os.memfd_create("fuzz", os.MFD_ALLOW_SEALING)
        os.ftruncate(memory, self.pick([0, 1, 4096, 1 << 20]))
        return memory

    def converse(self, connection, is_unix, waits, patience_s):
        """Sends a stream and ends the connection as the seed says. `waits`: the client may leave it
        to the daemon's limits to end the connection. Returns all that the daemon sent, or None if
        the client did not wait for it. TimeoutError: the daemon neither answered nor closed the
        connection in time."""
        data, ending = self.stream(), self.pick(["wait" if waits else "half"] * 5 + ["half"] * 5 + ["close", "reset"])
        connection.settimeout(patience_s)
        memory = self.preface() if is_unix else None
        received = bytearray()
        try:
            if memory is not None:
                socket.send_fds(connection, [b"\r\n"], [memory])
            for piece, pause_s in self.pieces(data):
                connection.sendall(piece)
                if pause_s:
                    connection.settimeout(pause_s)
                    try:
                        received += connection.recv(1 << 20)
                    except TimeoutError:
                        pass
                    connection.settimeout(patience_s)
            if ending == "half":
                connection.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError, OSError) as error:
            if isinstance(error, TimeoutError):
                raise
        finally:
            if memory is not None:
                os.close(memory)
        if ending == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if ending in ("close", "reset"):
            return None
        try:
            while more := connection.recv(1 << 20):
                received += more
        except (ConnectionResetError, BrokenPipeError):
            pass
        return None if b"HEAD" in data else bytes(received)
