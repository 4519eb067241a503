#!/usr/bin/env python3
"""How long one tenant's small products wait while another tenant tries to hold the daemon up."""

import multiprocessing
import signal
import tempfile
import time
from pathlib import Path

import figure
import load
from abandoned import OCTETS
from wire import Wire, request

TOKENS = {"attacker": "the-token-of-the-attacker", "victim": "the-token-of-the-victim"}
SIDE, LARGE = 64, 3584


def of(name, more=()):
    return [OCTETS, ("Authorization", f"Bearer {TOKENS[name]}"), *more]


def product(name, m, n, k, element_bytes, query="", headers=()):
    length = element_bytes * (m * k + k * n)
    return request("POST", f"/gemm?m={m}&n={n}&k={k}{query}", of(name, [("Content-Length", length), *headers]),
                   bytes(length))


def rows(query):
    """A row on the attacker's resident matrix."""
    length = 4 * LARGE
    return request("POST", f"/gemm?m=1&n={LARGE}&k={LARGE}&b=matrix{query}",
                   of("attacker", [("Content-Length", length)]), bytes(length))


def tensor(name, side):
    length = 4 * side * side
    return request("PUT", f"/tensors/{name}?dtype=f32&shape={side},{side}",
                   of("attacker", [("Content-Length", length)]), bytes(length))


# What each attack sends, and on how many connections. Each connection sends its request again and again.
ATTACKS = {
    "products of 5000³ in f64": (lambda: product("attacker", 5000, 5000, 5000, 8, "&dtype=f64"), 2),
    "uploads of 1 GiB": (lambda: tensor("large", 1 << 14), 2),
    "256³ at priority 9": (lambda: product("attacker", 256, 256, 256, 4, "&priority=9"), 24),
    "jobs of 512³ at priority 9": (
        lambda: product("attacker", 512, 512, 512, 4, "&priority=9", [("Prefer", "respond-async")]), 8),
    "verified rows": (lambda: rows("&verify=freivalds"), 32),
}


def attack(address, make, end):
    """Sends a request again and again; a process of its own."""
    data = make()
    while time.monotonic() < end:
        try:
            with Wire(address) as wire:
                while time.monotonic() < end:
                    wire.send(data)
                    wire.receive()
        except (OSError, AssertionError):
            time.sleep(0.01)


def verified_rows(address, count):
    """Sends rows that are to be verified, and leaves after 1.5 s."""
    wires = [Wire(address) for _ in range(count)]
    for wire in wires:
        wire.send(rows("&verify=freivalds"))
    time.sleep(1.5)
    for wire in wires:
        wire.socket.close()


def ask(wire, query, times):
    begun = time.monotonic()
    wire.send(product("victim", SIDE, SIDE, SIDE, 4, query))
    answer = wire.receive()
    if answer.status != 200:
        raise figure.CannotRun(f"a product of the victim was answered with {answer.status}: {answer.body!r}")
    times.append(time.monotonic() - begun)


def text(times):
    return (f"{len(times)} products, p50 {load.percentile(times, 0.5) * 1e3:.1f} ms, "
            f"p99 {load.percentile(times, 0.99) * 1e3:.1f} ms, longest {max(times) * 1e3:.0f} ms")


def withstand(gemmd, arguments, name, seconds):
    make, connections = ATTACKS[name]
    with load.running(gemmd, *arguments) as daemon:
        with Wire(daemon.address) as wire:
            wire.send(tensor("matrix", LARGE))
            assert wire.receive().status == 201
            end = time.monotonic() + seconds
            attackers = [multiprocessing.Process(target=attack, args=(daemon.address, make, end))
                         for _ in range(connections)]
            for one in attackers:
                one.start()
            times = []
            while time.monotonic() < end:
                ask(wire, "", times)
            for one in attackers:
                one.join()
    return times


def end_after_rows(gemmd, arguments, count):
    """Returns the victim's times after the attacker has left, and how long SIGTERM takes."""
    times = []
    with load.running(gemmd, *arguments, "--drain-timeout", "3s") as daemon:
        with Wire(daemon.address) as wire:
            wire.send(tensor("matrix", LARGE))
            assert wire.receive().status == 201
            verified_rows(daemon.address, count)
            for _ in range(10):
                ask(wire, "&verify=freivalds", times)
        verified_rows(daemon.address, count)
        begun = time.monotonic()
        daemon.process.send_signal(signal.SIGTERM)
        daemon.wait()
        return times, time.monotonic() - begun


def measure(options):
    """The victim asks one product after another on one connection."""
    figures, bar_ms = [], 250
    with tempfile.TemporaryDirectory() as folder:
        tokens = Path(folder) / "tokens"
        tokens.write_text("".join(f"{name}:{token}\n" for name, token in TOKENS.items()), encoding="ascii")
        tokens.chmod(0o600)
        arguments = ("--backend", "cpu", "--token-file", str(tokens), "--max-connections-per-address", "0",
                     "--tensor-bytes", "3G", "--tenant-tensor-bytes", "3G", "--tenant-bytes", "4G", "--queue-bytes", "8G",
                     "--pinned-bytes", "4G", "--max-body", "2G", "--max-work", "0", "--timeout", "600s")
        for name in ATTACKS:
            times = withstand(options.gemmd, arguments, name, 2 if options.quick else 15)
            figures.append(figure.Figure(
                "Tenants", f"{name} on {ATTACKS[name][1]} connections: {text(times)}",
                None if options.quick else max(times) * 1e3 <= bar_ms,
                "two tenants of one daemon; the attackers are Python programs on the same cores"))
        count = 20 if options.quick else 200
        times, end_s = end_after_rows(options.gemmd, arguments, count)
        figures.append(figure.Figure(
            "Tenants", f"{count} verified rows on a B of {LARGE}² whose clients have left: {text(times)}, verified "
            f"too; SIGTERM ends the daemon after {end_s:.2f} s with --drain-timeout 3s",
            None if options.quick else max(times) * 1e3 <= bar_ms and end_s <= 4,
            "the clients leave after 1.5 s"))
    return figures


if __name__ == "__main__":
    figure.main(measure)
