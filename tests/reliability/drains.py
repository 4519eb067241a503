#!/usr/bin/env python3
"""SIGTERM under load: every request that the daemon has accepted is answered."""

import http.client
import threading
import time

import figure
import load
from daemon import PATIENCE_S, Daemon
from wire import request, Wire

BODY = bytes(8 * 64 * 64)
TARGET = "/gemm?m=64&n=64&k=64"


class Client(threading.Thread):
    """Sends products until the daemon refuses connections. A request fails if its connection breaks
    after the daemon has taken the body, which `Expect: 100-continue` tells."""

    def __init__(self, daemon):
        super().__init__(daemon=True)
        self.address, self.good, self.refused, self.failed = daemon.address, 0, 0, []

    def ask(self):
        with Wire(self.address) as wire:
            wire.send(request("POST", TARGET, [("Content-Type", "application/octet-stream"),
                                               ("Content-Length", len(BODY)),
                                               ("Expect", "100-continue")]))
            first = wire.receive()
            if first.status != 100:
                self.refused += 1
                return first.status == 503
            try:
                wire.send(BODY)
                answer = wire.receive()
                self.good += answer.status == 200
                if answer.status != 200:
                    self.failed.append(answer.status)
            except OSError as error:
                self.failed.append(error)
        return True

    def run(self):
        try:
            while self.ask():
                pass
        except (OSError, http.client.HTTPException):
            return  # the daemon has ended, or has not accepted the request


def measure(options):
    """How many accepted requests fail, over several daemons."""
    turns = 2 if options.quick else 20
    good, failed, times, statuses = 0, [], [], []
    for _ in range(turns):
        daemon = Daemon(options.gemmd, "--no-access-log", "--pinned-bytes", "64M")
        try:
            daemon.wait_until_listening().wait_until_ready()
            daemon.session.close()
            clients = [Client(daemon) for _ in range(8)]
            for client in clients:
                client.start()
            time.sleep(0.5)
            begun = time.monotonic()
            daemon.terminate()
            statuses.append(daemon.wait())
            times.append(time.monotonic() - begun)
            for client in clients:
                client.join(PATIENCE_S)
        finally:
            daemon.close()
        good += sum(client.good for client in clients)
        failed += [one for client in clients for one in client.failed]
    return [figure.Figure(
        "F11", f"{turns} daemons ended under load: {good} requests answered, {len(failed)} accepted "
        f"requests failed, exit statuses {sorted(set(statuses))}, ended after "
        f"{load.percentile(times, 0.5):.2f} s (p50), {max(times):.2f} s at most",
        not failed and set(statuses) == {0},
        f"the first failures: {failed[:3]}" if failed else "")]


if __name__ == "__main__":
    figure.main(measure)
