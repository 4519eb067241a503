"""SIGHUP with files that are wrong: nothing changes, and no file holds up the daemon."""

import json
import os
import socket
import ssl
import subprocess
import threading

import pytest
import requests

from certificates import Authority
from daemon import PATIENCE_S
from test_reload import reload

OPTIONS = ("config", "token-file", "tls-cert", "tls-key", "tls-client-ca")
FAILED = "cannot reload, and all settings stay as they were: "
TOKEN = "the-token-of-alice"


class Served:
    """A daemon that reads a file of each kind, all in one folder."""

    def __init__(self, start, folder):
        self.folder = folder
        self.authority = Authority(folder)
        self.files = {option: folder / option for option in OPTIONS}
        self.files["tls-client-ca"].write_bytes(self.authority.certificate.read_bytes())
        self.write_pair()
        self.write_tokens(f"alice:{TOKEN}\n")
        self.write_config(max_body=1000)
        self.daemon = start(*(argument for option in OPTIONS
                              for argument in (f"--{option}", self.files[option])),
                            "--tls-client-auth", "optional", ready=False)
        self.daemon.wait_until_listening()

    def write_pair(self):
        for option, file in zip(("tls-cert", "tls-key"), self.authority.server()):
            self.files[option].write_bytes(file.read_bytes())
            self.files[option].chmod(0o600)

    def write_tokens(self, text):
        self.files["token-file"].write_text(text)

    def write_config(self, **options):
        self.files["config"].write_text(json.dumps({name.replace("_", "-"): value
                                                    for name, value in options.items()}))

    def serial(self):
        """The serial number of the certificate that a new connection is shown."""
        context = ssl.create_default_context(cafile=self.authority.certificate)
        with socket.create_connection(self.daemon.address, timeout=PATIENCE_S) as plain, \
                context.wrap_socket(plain, server_hostname="localhost") as connection:
            return connection.getpeercert()["serialNumber"]

    def get(self, path, token=TOKEN):
        return requests.get(f"https://localhost:{self.daemon.address[1]}{path}", timeout=PATIENCE_S,
                            verify=str(self.authority.certificate),
                            headers={"Authorization": f"Bearer {token}"})

    def state(self):
        """What a reload can change."""
        answer = self.get("/info")
        assert answer.status_code == 200
        return self.serial(), answer.json()["limits"]

    def fails_to_reload(self):
        """Sends SIGHUP, and returns the line that says why nothing was reloaded."""
        line = reload(self.daemon, FAILED)[-1]
        assert line["level"] == "error"
        return line["message"]


@pytest.fixture(name="served")
def serve(start, tmp_path):
    return Served(start, tmp_path)


@pytest.mark.parametrize("option", OPTIONS)
def test_a_fifo_holds_up_nothing(option, served):
    """Nobody ever writes to the FIFO. The daemon accepts connections, and SIGTERM ends it."""
    before = served.state()
    served.files[option].unlink()
    os.mkfifo(served.files[option], 0o600)
    message = served.fails_to_reload()
    assert f"{str(served.files[option])[:120]} is not a regular file (--{option})" in message
    assert served.state() == before
    served.daemon.terminate()
    assert served.daemon.wait() == 0


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("kind, says", [
    ("device", "is not a regular file"), ("directory", "is a directory"), ("loop", "cannot be read"),
    ("long", "is longer than 1 MiB"), ("missing", "cannot be read: No such file")])
def test_files_of_other_kinds(kind, says, option, served):
    before, file = served.state(), served.files[option]
    file.unlink()
    if kind == "device":
        file.symlink_to("/dev/zero")
    elif kind == "directory":
        file.mkdir()
    elif kind == "loop":
        file.symlink_to(file)
    elif kind == "long":
        file.write_bytes(b"#" * ((1 << 20) + 1))
        file.chmod(0o600)
    message = served.fails_to_reload()
    assert says in message and f"(--{option})" in message and str(file)[:120] in message
    assert served.state() == before


def test_links_to_files_are_followed(served):
    """Kubernetes mounts a secret as links to files in a folder, and replaces that folder's link."""
    before = served.state()
    for option in OPTIONS:
        target = served.folder / f"{option}.target"
        served.files[option].rename(target)
        served.files[option].symlink_to(target)
    served.write_pair()
    served.write_config(max_body=2000)
    reload(served.daemon)
    serial, limits = served.state()
    assert serial != before[0] and limits["max-body"] == 2000


WRONG = {
    "too many tenants": ("token-file", lambda served: served.write_tokens(
        "".join(f"tenant-{i}:the-token-of-{i}\n" for i in range(1024)))),
    "a malformed token": ("token-file", lambda served: served.write_tokens(f"alice:{TOKEN}\nbob:short\n")),
    "no token": ("token-file", lambda served: served.write_tokens("# nothing\n")),
    "a malformed option": ("config", lambda served: served.write_config(max_body="many")),
    "a key of another certificate": ("tls-key", lambda served: served.files["tls-key"].write_bytes(
        served.authority.server()[1].read_bytes())),
    "no certificate": ("tls-cert", lambda served: served.files["tls-cert"].write_text("nothing")),
    "no authority": ("tls-client-ca", lambda served: served.files["tls-client-ca"].write_text("nothing")),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_a_reload_is_whole_or_not_at_all(mistake, served):
    """All other files have changed too, and are right."""
    before = served.state()
    served.write_pair()
    served.write_tokens("bob:the-token-of-bob\n")
    served.write_config(max_body=2000)
    option, make = WRONG[mistake]
    make(served)
    message = served.fails_to_reload()
    named = "tls-cert" if option == "tls-key" else option
    assert str(served.files[named])[:80] in message
    assert served.state() == before
    assert served.get("/info", "the-token-of-bob").status_code == 401
    # The mistake is mended.
    served.write_pair()
    served.files["tls-client-ca"].write_bytes(served.authority.certificate.read_bytes())
    served.write_tokens(f"alice:{TOKEN}\nbob:the-token-of-bob\n")
    served.write_config(max_body=2000)
    reload(served.daemon)
    serial, limits = served.state()
    assert serial != before[0] and limits["max-body"] == 2000
    assert served.get("/info", "the-token-of-bob").status_code == 200


@pytest.mark.parametrize("option", ["token-file", "tls-cert"])
def test_a_start_does_not_wait_for_a_fifo(option, gemmd, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo, 0o600)
    more = ("--tls-key", fifo) if option == "tls-cert" else ()
    result = subprocess.run([gemmd, "--listen", "127.0.0.1:0", f"--{option}", fifo, *more],
                            capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert result.returncode == 1
    assert f"{str(fifo)[:120]} is not a regular file (--{option})" in result.stderr


def test_options_from_a_pipe(start):
    """A start reads --config from a pipe; a reload cannot, and says so."""
    reading, writing = os.pipe()

    def write():
        with os.fdopen(writing, "w") as pipe:
            pipe.write('{"max-body": 1000}')

    writer = threading.Thread(target=write)
    writer.start()
    daemon = start("--config", f"/dev/fd/{reading}", pass_fds=(reading,))
    writer.join()
    os.close(reading)
    url = f"{daemon.url}/info"
    assert daemon.session.get(url, timeout=PATIENCE_S).json()["limits"]["max-body"] == 1000
    assert "is not a regular file (--config)" in reload(daemon, FAILED)[-1]["message"]


def test_an_endless_config_ends_the_start(gemmd):
    result = subprocess.run([gemmd, "--config", "/dev/zero"], capture_output=True, text=True,
                            timeout=PATIENCE_S, check=False)
    assert result.returncode == 2
    assert result.stderr == "gemmd: /dev/zero is longer than 1 MiB (--config)\n"
