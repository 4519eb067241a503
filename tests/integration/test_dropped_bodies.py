"""The bodies of refused requests are read a few at a time, and their clients keep their connections."""

import contextlib
import ssl
import threading

from certificates import Authority
from daemon import PATIENT
from oracle import LONG_DRAIN, Oracle, gauges
from patience import wait_until
from wire import Wire, request

OCTETS = ("Content-Type", "application/octet-stream")
SIDE = 200
LENGTH = 8 * SIDE * SIDE
HEAD = request("POST", f"/gemm?m={SIDE}&n={SIDE}&k={SIDE}", [OCTETS, ("Content-Length", LENGTH)])
EXPECTING = request("POST", f"/gemm?m={SIDE}&n={SIDE}&k={SIDE}",
                    [OCTETS, ("Content-Length", LENGTH), ("Expect", "100-continue")])
OPTIONS = ("--queue-requests", "1", "--io-threads", "1", *PATIENT, *LONG_DRAIN)
MANY = 40


def connect(daemon, tls=None):
    wire = Wire(daemon.address)
    if tls is not None:
        wire.socket = tls.wrap_socket(wire.socket, server_hostname="localhost")
    return wire


@contextlib.contextmanager
def only_place(daemon, tls=None):
    """Holds the only place of the queue, by a request without its body."""
    with connect(daemon, tls) as holder:
        holder.send(EXPECTING)
        assert holder.receive().status == 100
        yield
        holder.send(bytes(LENGTH))
        assert holder.receive().status == 200


def refuse_twice(wire, failures):
    """Sends two requests on one connection, each with its whole body."""
    try:
        for _ in range(2):
            wire.send(HEAD + bytes(LENGTH))
            answer = wire.receive()
            assert answer.status == 429, answer
            assert "connection" not in answer.headers, answer.headers
    except Exception as error:  # pylint: disable=broad-except
        failures.append(error)


def all_at_once(wires):
    failures = []
    threads = [threading.Thread(target=refuse_twice, args=(wire, failures)) for wire in wires]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_many_refused_clients_keep_their_connections(start):
    daemon = start(*OPTIONS)
    oracle = Oracle(daemon)
    with only_place(daemon), contextlib.ExitStack() as stack:
        all_at_once([stack.enter_context(connect(daemon)) for _ in range(MANY)])
    oracle.check()
    oracle.check_exit()


def test_with_tls(start, tmp_path):
    """Bytes that GnuTLS has decrypted while a connection waited for its turn are not forgotten."""
    authority = Authority(tmp_path)
    certificate, key = authority.server()
    tls = ssl.create_default_context(cafile=authority.certificate)
    daemon = start(*OPTIONS, "--tls-cert", certificate, "--tls-key", key, ready=False)
    daemon.wait_until_listening()
    with only_place(daemon, tls), contextlib.ExitStack() as stack:
        all_at_once([stack.enter_context(connect(daemon, tls)) for _ in range(8)])
    daemon.stop()


def test_a_slow_body_holds_nobody_up(start):
    """Bodies that are not sent do not keep the bodies behind them from being read."""
    daemon = start(*OPTIONS)
    oracle = Oracle(daemon)
    with only_place(daemon), contextlib.ExitStack() as stack:
        slow = [stack.enter_context(Wire(daemon.address)) for _ in range(MANY)]
        for wire in slow:
            wire.send(HEAD + bytes(1000))
        all_at_once([stack.enter_context(Wire(daemon.address)) for _ in range(4)])
        for wire in slow:
            wire.send(bytes(LENGTH - 1000))
            assert wire.receive().status == 429
    oracle.check()
    oracle.check_exit()


def test_clients_that_leave_are_forgotten(start):
    daemon = start(*OPTIONS)
    oracle = Oracle(daemon)
    with only_place(daemon):
        for sent in (0, 1000, LENGTH - 1):
            wires = [Wire(daemon.address) for _ in range(MANY)]
            for wire in wires:
                wire.send(HEAD + bytes(sent))
            for wire in wires:
                wire.socket.close()
        with Wire(daemon.address) as wire:
            all_at_once([wire])
    oracle.check()
    oracle.check_exit()


def test_the_daemon_ends_with_bodies_to_read(start):
    """A connection that waits for its turn does not keep the daemon from ending."""
    daemon = start("--queue-requests", "1", "--io-threads", "1", "--drain-delay", "0", "--drain-timeout", "100ms",
                   *PATIENT)
    with Wire(daemon.address) as holder, contextlib.ExitStack() as stack:
        holder.send(EXPECTING)
        assert holder.receive().status == 100, "the place is taken"
        for _ in range(MANY):
            stack.enter_context(Wire(daemon.address)).send(HEAD + bytes(1000))
        with Wire(daemon.address) as wire:
            wire.send(HEAD + bytes(LENGTH))
            assert wire.receive().status == 429
        daemon.stop()


def test_an_accepted_body_is_not_held_up_by_a_crowd(start):
    """New connections begin a few at a time while an accepted body is received, so that its request ends before most
    of the others are refused, and one of the others gets its place. The heads of all and the whole body are there
    before the daemon looks at any."""
    crowd = 240
    daemon = start(*OPTIONS)
    oracle = Oracle(daemon)
    wrong = request("PUT", "/tensors/wrong?dtype=i8&shape=1,1048576",
                    [OCTETS, ("Content-Length", 1 << 20), ("Expect", "100-continue"),
                     ("Content-Digest", f"sha-256=:{'A' * 43}=:")])
    with connect(daemon) as accepted, contextlib.ExitStack() as stack:
        accepted.send(wrong)
        assert accepted.receive().status == 100
        wires = [stack.enter_context(connect(daemon)) for _ in range(crowd)]
        wait_until(lambda: gauges(daemon)["gemmd_connections"] > crowd, "the daemon to have the connections")
        with daemon.suspended():
            for wire in wires:
                wire.send(EXPECTING)
            accepted.send(bytes(1 << 20))
        assert accepted.receive().status == 400, "the digest is wrong"
        statuses = [wire.receive().status for wire in wires]
        assert sorted(statuses) == [100] + [429] * (crowd - 1), "the place was free after all were refused"
        wires[statuses.index(100)].send(bytes(LENGTH))
        assert wires[statuses.index(100)].receive().status == 200
    oracle.check()
    oracle.check_exit()


def test_clients_that_send_a_large_body_before_they_read(start):
    """The rate at which the bodies behind a refusal are dropped is bounded, and no client loses its answer."""
    daemon = start(*OPTIONS)
    oracle = Oracle(daemon)
    side, failures = 700, []
    length = 8 * side * side
    head = request("POST", f"/gemm?m={side}&n={side}&k={side}", [OCTETS, ("Content-Length", length)])

    def refuse():
        try:
            with connect(daemon) as wire:
                wire.send(head + bytes(length))
                answer = wire.receive()
                assert answer.status == 429, answer
                assert answer.headers["connection"].lower() == "close", answer.headers
        except Exception as error:  # pylint: disable=broad-except
            failures.append(error)

    with only_place(daemon):
        threads = [threading.Thread(target=refuse) for _ in range(MANY)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []
    oracle.check()
    oracle.check_exit()
