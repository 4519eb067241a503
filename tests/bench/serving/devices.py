"""python -m serving.devices: one device and several, in turns. See tests/bench/devices.sh."""

import argparse
import contextlib
import datetime
import http.client
import json
import os
import random
import statistics
import subprocess
import tempfile
import time
import urllib.request

from . import load, servers


class Side:
    """A daemon under load, and where its clients find it."""

    def __init__(self, arguments, devices, scratch, name):
        self.build, self.scratch, self.gpu = arguments.build, scratch, arguments.backend == "cuda"
        path = os.path.join(scratch, f"{name}.sock")
        command = [f"{arguments.build}/bin/gemmd", "--backend", arguments.backend, "--devices", devices,
                   "--listen", "127.0.0.1:0", "--listen", f"unix:{path}", "--shm-system",
                   "--shm-bytes", "16G", "--pinned-bytes", arguments.pinned,
                   "--device-bytes", arguments.device_bytes, "--tensor-bytes", arguments.tensor_bytes,
                   "--max-connections-per-address", "0", "--no-access-log"]
        if arguments.cpu_threads:
            command += ["--cpu-threads", arguments.cpu_threads]
        self.server = servers.Server(command, os.path.join(scratch, f"{name}.log"))
        self.address, self.unix = self.server.address, f"unix:{path}"

    def request(self, method, path, body=None):
        request = urllib.request.Request(f"http://{self.address}{path}", data=body, method=method)
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.loads(answer.read() or b"null")

    def info(self):
        return self.request("GET", "/info")

    def put(self, name, rows, columns, dtype, **more):
        extra = "".join(f"&{key}={value}" for key, value in more.items())
        size = {"f32": 4, "bf16": 2}[dtype]
        return self.request("PUT", f"/tensors/{name}?dtype={dtype}&shape={rows},{columns}{extra}",
                            os.urandom(1024) * (rows * columns * size // 1024))["devices"]

    def delete(self, name):
        request = urllib.request.Request(f"http://{self.address}/tensors/{name}", method="DELETE")
        urllib.request.urlopen(request, timeout=120).close()

    def body(self, count):
        """A file with so many bytes of small numbers."""
        path = os.path.join(self.scratch, f"body-{count}")
        if not os.path.exists(path):
            with open(path, "wb") as out:
                out.write((bytes(range(32)) * (count // 32 + 1))[:count])
        return path

    def post(self, target, count, connections, seconds):
        return load.wrk(self.address, target, self.body(count), connections, seconds).rate

    def shared(self, side, connections, seconds):
        """Products of f32 whose operands and results lie in system shared memory. The program measures
        three times, and prints the median."""
        run = subprocess.run([f"{self.build}/bin/gemmd-bench-ways", self.address, self.unix, str(side),
                              str(connections), str(max(1, seconds // 3)), "system"],
                             capture_output=True, text=True, check=True, timeout=60 * seconds + 60)
        return float(next(line.split()[1] for line in run.stdout.splitlines()
                          if line.startswith("system")))


    @contextlib.contextmanager
    def region(self, count):
        """Registers so many bytes of system shared memory; yields the name of the region."""
        name = f"gemmd-bench-{os.getpid()}"
        with open(f"/dev/shm/{name}", "wb") as out:
            for _ in range(count >> 20):
                out.write(os.urandom(1024) * 1024)
        try:
            self.request("POST", f"/v2/systemsharedmemory/region/{name}/register",
                         json.dumps({"key": f"/{name}", "byte_size": count}).encode())
            yield name
            self.request("POST", f"/v2/systemsharedmemory/region/{name}/unregister", b"")
        finally:
            os.unlink(f"/dev/shm/{name}")

    def one_at_a_time(self, edge, seconds):
        """Products of bf16 on the resident W, with X and Y in shared memory; and how many devices
        computed each."""
        size, parameters = 2 * edge * edge, {} if self.gpu else {"kernel": "tiled"}
        host, port = self.address.rsplit(":", 1)
        with self.region(2 * size) as name:
            def place(tensor, offset):
                return {"name": tensor, "parameters": {
                    "shared_memory_region": name, "shared_memory_offset": offset,
                    "shared_memory_byte_size": size}}
            body = json.dumps({
                "inputs": [{**place("X", 0), "shape": [edge, edge], "datatype": "BF16"}],
                "outputs": [place("Y", size)], "parameters": parameters})
            connection = http.client.HTTPConnection(host, int(port), timeout=120)
            begun, count = time.monotonic(), 0
            while time.monotonic() - begun < seconds:
                connection.request("POST", "/v2/models/linear.W/infer", body)
                answer = connection.getresponse()
                assert answer.status == 200, answer.read()
                answer.read()
                count += 1
            connection.close()
            return count / (time.monotonic() - begun)


def put_all_on_one(side, names, edge):
    """Uploads tensors of which none has a copy, all to the device with the first one."""
    fillers = []
    home = side.put("first", 1024, 1024, "f32")[0]
    rows = edge * edge * len(names) * 2 // 1024
    while len(side.info()["devices"]) > 1 and side.put(f"filler{len(fillers)}", rows, 1024,
                                                       "bf16")[0] != home:
        fillers.append(f"filler{len(fillers)}")
        if len(fillers) == len(side.info()["devices"]) - 1:
            break
    places = [side.put(name, edge, edge, "bf16") for name in names]
    for name in fillers + ["first"]:
        side.delete(name)
    return places


def resident(side, seconds, edge, rows):
    if "W" not in [one["name"] for one in side.request("GET", "/tensors")["tensors"]]:
        side.put("W", edge, edge, "bf16")
    target = f"/gemm?m={rows}&n={edge}&k={edge}&dtype=bf16&b=W"
    return side.post(target, 2 * rows * edge, 128, seconds)


def divided(side, seconds, edge):
    if [one["shape"] for one in side.request("GET", "/tensors")["tensors"] if one["name"] == "W"] != [[edge, edge]]:
        side.put("W", edge, edge, "bf16")
    return side.one_at_a_time(edge, seconds)


def several_on_one(side, seconds, edge, rows):
    """Rows in shared memory on four tensors, so that buses and devices are the limit, and not HTTP."""
    names, slots, size = [f"T{i}" for i in range(4)], 64, 2 * rows * edge
    if "T0" not in [one["name"] for one in side.request("GET", "/tensors")["tensors"]]:
        put_all_on_one(side, names, edge)
    listing = os.path.join(side.scratch, "several")
    with side.region(2 * slots * size) as region, open(listing, "w", encoding="ascii") as out:
        def place(tensor, number):
            return {"name": tensor, "parameters": {
                "shared_memory_region": region, "shared_memory_offset": number * size,
                "shared_memory_byte_size": size}}
        for slot in range(slots):
            body = os.path.join(side.scratch, f"several-{slot}")
            with open(body, "w", encoding="ascii") as file:
                json.dump({"inputs": [{**place("X", 2 * slot), "shape": [rows, edge], "datatype": "BF16"}],
                           "outputs": [place("Y", 2 * slot + 1)]}, file)
            out.write(f"/v2/models/linear.{names[slot % 4]}/infer\t{body}\n")
        out.flush()
        return load.wrk_list(side.address, listing, 64, seconds).rate


ELEMENT_BYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "f8_e4m3": 1, "i8": 1}


def mixed(side, seconds):
    """Products of all types with sides of 16 to 256, shuffled; the same ones for every daemon."""
    draw, listing = random.Random(1), os.path.join(side.scratch, "mixed")
    with open(listing, "w", encoding="ascii") as out:
        for dtype in draw.choices(list(ELEMENT_BYTES), k=300):
            m, n, k = (draw.randint(16, 256) for _ in range(3))
            body = side.body(ELEMENT_BYTES[dtype] * k * (m + n))
            out.write(f"/gemm?m={m}&n={n}&k={k}&dtype={dtype}\t{body}\n")
    return load.wrk_list(side.address, listing, 256, seconds).rate


def rows_of(arguments):
    """(what, function of a side and seconds, target)"""
    gpu = arguments.backend != "cpu"
    edge = 4096 if gpu else 512
    sides = ((1024, 32), (4096, 16)) if gpu else ((256, 8), (512, 4))
    yield "f32 64³, HTTP, 256 connections", lambda s, t: s.post(
        "/gemm?m=64&n=64&k=64", 8 * 64 * 64, 256, t), 1.6
    yield "sides of 16 to 256, all types, HTTP, 256 connections", mixed, None
    for side, connections in sides:
        yield (f"f32 {side}³, system shared memory, {connections} connections",
               lambda s, t, n=side, c=connections: s.shared(n, c, t), 1.9)
    yield f"bf16 64 rows on one resident {edge}²", lambda s, t: resident(s, t, edge, 64), None
    large = 16384 if gpu else 1024
    yield (f"bf16 {large}³ on one resident B, system shared memory, one at a time",
           lambda s, t: divided(s, t, large), 1.8)
    yield (f"bf16 256 rows in system shared memory on four resident {edge}², all on one device at the start",
           lambda s, t: several_on_one(s, t, edge, 256), 1.6)


def measure(one, several, row, arguments):
    what, function, target = row
    rates = {one: [], several: []}
    for turn in range(arguments.turns + 1):
        for side in ((one, several) if turn % 2 else (several, one)):
            rate = function(side, arguments.seconds)
            if turn > 0:  # the first turn warms up, and lets tensors be copied
                rates[side].append(rate)
    ratio = statistics.median(b / a for a, b in zip(rates[one], rates[several]))
    return (what, statistics.median(rates[one]), statistics.median(rates[several]), ratio, target)


def write_table(path, facts, count, arguments, found):
    with open(path, "w", encoding="utf-8") as out:
        out.write(f"{facts}, clients on the same machine. Requests per second, medians of {arguments.turns} "
                  f"turns of {arguments.seconds} s,\nboth daemons in turn, and the median of the turns' ratios.\n\n"
                  f"| what | one device | {count} devices | ratio | target |\n|---|---|---|---|---|\n")
        for what, alone, together, ratio, target in found:
            wanted = "" if target is None else f"≥ {target}: {'' if ratio >= target else 'not '}reached"
            out.write(f"| {what} | {alone:,.1f} | {together:,.1f} | {ratio:.2f} | {wanted} |\n")


def main():
    parser = argparse.ArgumentParser(prog="devices.sh")
    parser.add_argument("--build", default="build")
    parser.add_argument("--out", default="tests/bench/results")
    parser.add_argument("--backend", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--one", default=None, help="--devices of the daemon with one device")
    parser.add_argument("--several", default=None, help="--devices of the other")
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--rows", default="", help="only rows with this text in their name")
    parser.add_argument("--cpu-threads", default=None)
    parser.add_argument("--pinned", default="8G")
    parser.add_argument("--device-bytes", default=None)
    parser.add_argument("--tensor-bytes", default=None)
    arguments = parser.parse_args()
    gpu = arguments.backend == "cuda"
    arguments.one = arguments.one or ("0" if gpu else "1")
    arguments.several = arguments.several or ("all" if gpu else "2")
    arguments.device_bytes = arguments.device_bytes or ("16G" if gpu else "1G")
    arguments.tensor_bytes = arguments.tensor_bytes or ("4G" if gpu else "64M")
    with tempfile.TemporaryDirectory() as scratch:
        one = Side(arguments, arguments.one, scratch, "one")
        several = Side(arguments, arguments.several, scratch, "several")
        with one.server, several.server:
            info = several.info()
            device, count = info["devices"][0]["name"], len(info["devices"])
            when = datetime.datetime.now(datetime.timezone.utc)
            name = "".join(c if c.isalnum() else "-" for c in device.lower().replace("nvidia ", ""))
            path = os.path.join(arguments.out, f"devices-{when:%Y-%m-%d-%H%M}-{count}x-{name}.md")
            facts = (f"# {count} devices and one, {device}, {when:%Y-%m-%d}\n\n"
                     f"gemmd {info['version']} ({info['build']['revision']}), {os.cpu_count()} cores")
            found = []
            for row in (row for row in rows_of(arguments) if arguments.rows in row[0]):
                found.append(measure(one, several, row, arguments))
                print(*found[-1], sep=" | ", flush=True)
                # After each row, so that a run that is ended early leaves the rows it has measured.
                write_table(path, facts, count, arguments, found)
    print(f"written: {path}")


if __name__ == "__main__":
    main()
