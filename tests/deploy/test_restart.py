"""A restart with listening sockets that the service manager keeps, as gemmd.socket has it."""

import contextlib
import pathlib
import socket

from daemon import Daemon
from fleet import Load


def test_restart_with_a_kept_socket(request):
    """No request is lost: connections wait until the next process accepts them."""
    gemmd = request.config.getoption("--gemmd")
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=1024))
        fd = listener.fileno()
        script = f'exec 3<&{fd}; LISTEN_FDS=1 LISTEN_PID=$$ exec "$@"'

        def start():
            daemon = Daemon(gemmd, "--backend", "cpu", "--pinned-bytes", "256M", "--device-bytes",
                            "256M", "--tensor-bytes", "64M", "--no-access-log", listen=None,
                            wrapper=("bash", "-c", script, "bash"), pass_fds=(fd,))
            stack.callback(daemon.close)
            return daemon.wait_until_listening()

        daemon = start()
        load = Load(pathlib.Path(gemmd).parent / "gemmd-fleet-load",
                    "http://127.0.0.1:%d" % listener.getsockname()[1])
        stack.callback(load.stop)
        for _ in range(3):
            load.wait_for_answers(1000)
            daemon.stop()
            daemon = start()
        load.wait_for_answers(1000)
        counts = load.stop()
        daemon.stop()
        assert (counts["lost"], counts["wrong"]) == (0, 0), load.errors[:10]
        assert counts["sent"] == counts["answered"]
