#!/usr/bin/env python3
"""The rate of large bodies up and down one connection, beside a bare socket on loopback."""

import re
import socket
import statistics
import threading
import time

import figure
import load
from daemon import PATIENCE_S
from wire import Wire, request

SIDE = 4096
BYTES = 4 * SIDE * SIDE
# Memory of its own on each side. bytes(BYTES) is one page of zeros, mapped many times: a sender reads that page from
# the processor's cache, and so sends faster than any program that sends data.
FILLED = b"\x01" * BYTES
OCTETS = ("Content-Type", "application/octet-stream")


class Bare(threading.Thread):
    """Takes BYTES and answers with a byte, or takes a byte and answers with BYTES."""

    def __init__(self):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.body = memoryview(FILLED)
        self.room = memoryview(bytearray(BYTES))

    def run(self):
        peer, _ = self.listener.accept()
        with peer:
            while ask := peer.recv(1):
                if ask == b"u":
                    receive(peer, self.room)
                    peer.sendall(b"!")
                else:
                    peer.sendall(self.body)


def receive(sock, room):
    at = 0
    while at < len(room):
        at += sock.recv_into(room[at:])


def timed(act):
    """The rate in GB/s. `act` may return the seconds that count."""
    begun = time.monotonic()
    seconds = act()
    return BYTES / (seconds or time.monotonic() - begun) / 1e9


def measure(options):
    """Rates in turns, so that both see the same neighbours."""
    turns = 2 if options.quick else 15
    body, room = memoryview(FILLED), memoryview(bytearray(BYTES))
    put = request("PUT", f"/tensors/x?dtype=f32&shape={SIDE},{SIDE}",
                  [OCTETS, ("Content-Length", BYTES)], FILLED)
    product = request("POST", f"/gemm?m={SIDE}&n=1&k={SIDE}",
                      [OCTETS, ("Content-Length", BYTES + 4 * SIDE)], bytes(4 * SIDE))
    bare = Bare()
    bare.start()
    waits = []  # until a download's first byte
    rates = {name: [] for name in ("bare up", "up", "bare down", "down")}
    with load.running(options.gemmd, "--tensor-bytes", "256M") as daemon, \
            Wire(daemon.address) as wire, \
            socket.create_connection(bare.listener.getsockname(), PATIENCE_S) as plain:

        def bare_up():
            plain.sendall(b"u")
            plain.sendall(body)
            plain.recv(1)

        def bare_down():
            plain.sendall(b"d")
            receive(plain, room)

        def up():  # the daemon says how long the body took to arrive
            wire.send(product)
            wire.send(body)
            answer = wire.receive()
            assert answer.status == 200
            return float(re.search(r"recv;dur=([\d.]+)", answer.headers["server-timing"])[1]) / 1e3

        def down():
            begun = time.monotonic()
            wire.send(request("GET", "/tensors/x"))
            head = b""
            while b"\r\n\r\n" not in head:
                head += wire.socket.recv(1 << 16)
            waits.append(time.monotonic() - begun)
            rest = head.split(b"\r\n\r\n", 1)[1]
            receive(wire.socket, room[len(rest):])

        wire.send(put)
        assert wire.receive().status == 201
        acts = {"bare up": bare_up, "up": up, "bare down": bare_down, "down": down}
        for turn in range(turns + 1):  # the first turn touches the memory
            for name, act in acts.items():
                rate = timed(act)
                if turn:
                    rates[name].append(rate)
    middle = {name: statistics.median(values) for name, values in rates.items()}
    shares = {way: middle[way] / middle[f"bare {way}"] for way in ("up", "down")}
    text = ", ".join(f"{way} {middle[way]:.2f} GB/s ({min(rates[way]):.2f} to {max(rates[way]):.2f}) "
                     f"of {middle[f'bare {way}']:.2f} ({shares[way]:.2f})" for way in ("up", "down"))
    first_s = statistics.median(waits[1:])
    after = BYTES / (BYTES / middle["down"] / 1e9 - first_s) / 1e9
    return [figure.Figure("F19", text, None if options.quick else min(shares.values()) >= 0.8,
                          "64 MiB on one connection; up: until the body is in the memory that the device reads; "
                          "down: a tensor, which the CPU backend sends from where it lies, and which a GPU copies to "
                          f"the host while its first part is sent; the first byte came {1e3 * first_s:.1f} ms after "
                          f"the request, and from then on the rate is {after / middle['bare down']:.2f} of the bare "
                          "socket's")]


if __name__ == "__main__":
    figure.main(measure)
