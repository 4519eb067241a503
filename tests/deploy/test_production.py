"""deploy/PRODUCTION.md: its steps lead from nothing to a product. Those for systemd are carried out; of the others, the
options and values are checked."""

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import textwrap

import pytest

from certificates import Authority
from conftest import DEPLOY, run
from patience import PATIENCE_S
from reserved_port import ReservedPort

GUIDE = (DEPLOY / "PRODUCTION.md").read_text()
# systemd's part in the steps: no systemd runs in a root.
SYSTEMCTL = """#!/bin/sh
[ "$*" = "restart gemmd.service" ] || exit 0
runuser -u gemmd -- $(sed -n 's/^ExecStart=//p' /usr/lib/systemd/system/gemmd.service) --backend cpu \\
    --pinned-bytes 64M --device-bytes 64M --tensor-bytes 16M >log 2>&1 &
echo $! >/run/gemmd.test.pid
until grep -q 'listening on' log; do kill -0 $! && sleep 0.1 || exit 1; done
"""
INSIDE = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive",
          "LC_ALL": "C.UTF-8", "HOME": "/root"}


def blocks(section):
    """The shell blocks of a section, or those before the first section."""
    text = GUIDE if section is None else GUIDE.split(f"\n## {section}\n")[1]
    return [textwrap.dedent(block) for block in re.findall(r"^ *```sh\n(.*?)^ *```$", text.split("\n## ")[0], re.M | re.S)]


def run_inside(root, script, folder="/root"):
    """Runs a script of bash in a root, with /proc."""
    done = subprocess.run(["unshare", "--mount", "sh", "-c", 'mount --bind /proc "$0/proc" && exec chroot "$0" "$@"', root,
                           "bash", "-euc", f"cd {folder}\n{script}"], capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL, env=INSIDE)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def carry_out(root, debs, folder):
    """The steps for systemd, in a root with the files that the guide expects. Returns what they printed."""
    place = root / "root/release"
    place.mkdir()
    certificate, key = Authority(folder).server()
    for source, name in ((folder / "authority.pem", "ca.pem"), (certificate, "cert.pem"), (key, "key.pem"),
                         *((file, file.name) for file in debs)):
        shutil.copy(source, place / name)
    with ReservedPort() as port, contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, place)
        program = root / "usr/local/bin/systemctl"
        program.write_text(SYSTEMCTL)
        program.chmod(0o755)
        stack.callback(program.unlink)
        script = "".join((*blocks(None), *blocks("systemd")))
        for text, other in (("0.0.0.0:8080", port.address), ("$(hostname -f):8080", port.address.replace("127.0.0.1", "localhost"))):
            assert text in script
            script = script.replace(text, other)
        end = 'trap \'kill "$(cat /run/gemmd.test.pid)"; wait; rm /run/gemmd.test.pid\' EXIT\n'
        refused = "! gemmctl gemm --random 2x2x2 --retries 0 2>refused && cat refused\n"
        return run_inside(root, end + script + refused, "/root/release")


def test_the_steps_for_systemd(debs, clean_root, tmp_path):
    try:
        printed = carry_out(clean_root, [debs[name] for name in ("gemmd", "gemmctl", "libgemmd0")], tmp_path)
        assert "\nready\n" in printed and "HTTP 401" in printed.splitlines()[-1], printed
        assert oct((clean_root / "etc/gemmd/key.pem").stat().st_mode & 0o777) == "0o640"
    finally:
        run("chroot", clean_root, "dpkg", "--purge", "gemmd", "gemmctl", "libgemmd0", env={**os.environ, **INSIDE})
        shutil.rmtree(clean_root / "etc/gemmd", ignore_errors=True)


def test_the_steps_for_containers_name_options_of_the_daemon(request):
    command, = (block for block in blocks("Containers") if "docker run" in block)
    words = shlex.split(command.split("docker run")[1])
    image, = (number for number, word in enumerate(words) if word.startswith("registry.internal/"))
    options = words[image + 1:]
    assert "--token-file" in options and "--tls-cert" in options
    described = run(request.config.getoption("--gemmd"), "--help")
    assert [option for option in options if option.startswith("--") and f"\n  {option} " not in described] == []
    mounted = [words[number + 1].split(":")[1] for number, word in enumerate(words) if word == "--volume"]
    assert [path for path in options if path.startswith("/") and path not in mounted] == []


def test_the_steps_for_kubernetes_name_values_of_the_chart():
    helm = pytest.importorskip("helm_python")
    install, = (block for block in blocks("Kubernetes") if "helm install" in block)
    values = {}
    for pair in ",".join(re.findall(r"--set (\S+)", install)).split(","):
        name, value = pair.split("=", 1)
        place = values
        *folders, last = name.split(".")
        for folder in folders:
            place = place.setdefault(folder, {})
        place[last] = {"true": True}.get(value, value.strip('"'))
    secret, = re.findall(r"create secret generic (\S+) --from-file tokens", "".join(blocks("Kubernetes")))
    with helm.Chart.load(DEPLOY / "kubernetes/chart") as chart:
        made = chart.render(values, name="gemmd", namespace="gemmd")
    deployment = made["gemmd/templates/deployment.yaml"]
    assert f"image: {values['image']['repository']}:" in deployment and f"secretName: {secret}" in deployment
    assert any("ServiceMonitor" in text for text in made.values())
