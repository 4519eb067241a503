#!/usr/bin/env python3
"""`kill -9` under load. A stand-in for the service manager holds the listening socket, as a socket
unit does, and starts the daemon again."""

import socket
import threading
import time

import requests

import figure
import load
from daemon import PATIENCE_S, Daemon
from wire import Wire, request

GOOD = request("POST", "/gemm?m=2&n=2&k=2", [("Content-Type", "application/octet-stream"),
                                             ("Content-Length", 32)], bytes(32))


class Client(threading.Thread):
    def __init__(self, address):
        super().__init__(daemon=True)
        self.address, self.stopping = address, threading.Event()
        self.good, self.broken, self.refused, self.wrong = 0, 0, 0, []

    def run(self):
        while not self.stopping.is_set():
            try:
                with Wire(self.address) as wire:
                    wire.send(GOOD)
                    answer = wire.receive()
                if (answer.status, answer.body) == (200, bytes(16)):
                    self.good += 1
                elif answer.status != 503:
                    self.wrong.append((answer.status, answer.body))
            except ConnectionRefusedError:
                self.refused += 1
            except OSError:
                self.broken += 1  # killed with the request in hand; a client sends it again


def start(options, listener):
    fd = listener.fileno()
    script = f'exec 3<&{fd}; LISTEN_FDS=1 LISTEN_PID=$$ exec "$@"'
    return Daemon(options.gemmd, "--no-access-log", "--pinned-bytes", "64M", listen=None,
                  wrapper=("bash", "-c", script, "bash"), pass_fds=(fd,))


def wait_until_ready(url):
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            if requests.get(f"{url}/readyz", timeout=PATIENCE_S).status_code == 200:
                return
        except requests.RequestException:
            pass
        time.sleep(0.01)
    raise TimeoutError("the daemon is not ready")


def measure(options):
    """Refused connections, and the time until the daemon is ready again."""
    count = 2 if options.quick else options.count
    times = []
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as listener:
        address = listener.getsockname()
        url = "http://%s:%d" % address
        daemon = start(options, listener)
        clients = [Client(address) for _ in range(4)]
        try:
            wait_until_ready(url)
            for client in clients:
                client.start()
            for _ in range(count):
                time.sleep(0.1)
                daemon.process.kill()
                begun = time.monotonic()
                daemon.process.wait()
                daemon.close()
                daemon = start(options, listener)
                wait_until_ready(url)
                times.append(time.monotonic() - begun)
            for client in clients:
                client.stopping.set()
                client.join(PATIENCE_S)
            daemon.stop()
        finally:
            daemon.close()
    refused = sum(client.refused for client in clients)
    wrong = [one for client in clients for one in client.wrong]
    p95 = load.percentile(times, 0.95)
    return [figure.Figure(
        "F10", f"{count} kills: {refused} refused connections, {len(wrong)} wrong answers, ready again "
        f"after {load.percentile(times, 0.5):.2f} s (p50), {p95:.2f} s (p95), {max(times):.2f} s at "
        f"most; {sum(client.good for client in clients)} requests answered, "
        f"{sum(client.broken for client in clients)} lost with their process",
        refused == 0 and not wrong and p95 <= 5,
        "a request that is lost with its process is safe to repeat, which libgemmd does")]


if __name__ == "__main__":
    figure.main(measure, [("--count", {"type": int, "default": 100})])
