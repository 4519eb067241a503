"""A TCP port that belongs to one test, whether or not a daemon listens there."""

import socket


class ReservedPort:
    """A port of 127.0.0.1 that is bound, but not listened on, until `close`. The system refuses connections to
    the port, and gives the port to nobody who asks for any port. A daemon may listen on the port by its number,
    because the daemon sets SO_REUSEADDR as this socket does, and may do so again after a restart."""

    def __init__(self):
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("127.0.0.1", 0))
        self.number = self.socket.getsockname()[1]
        self.address = f"127.0.0.1:{self.number}"

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
