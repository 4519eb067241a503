#!/usr/bin/env python3
"""Takes pictures of the page at / of a loaded daemon: light and dark, 1400 and 400 pixels wide.

    build-tests/venv/bin/python tests/bench/screenshots.py --gemmd build/bin/gemmd FOLDER

The script starts a daemon, has every operation computed for --seconds, among them wrong requests, jobs and tensors, and
writes light-1400.png, light-400.png, dark-1400.png and dark-400.png to FOLDER. It needs Debian's packages chromium and
chromium-driver. With --url the page of a daemon that runs already is taken, and nothing is sent to that daemon.
"""

import argparse
import base64
import contextlib
import itertools
import sys
import threading
import time
from pathlib import Path

import requests

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))
# pylint: disable=wrong-import-position
from browser import CHROMIUM, DRIVER, Page, browser  # noqa: E402
from daemon import PATIENCE_S, Daemon  # noqa: E402

WIDTHS = (1400, 400)
CONV = "channels=16&height=28&width=28&filters=16&filter_h=3&filter_w=3&padding=1"
# method, path and query, bytes of the body
REQUESTS = [
    ("POST", "gemm?m=64&n=64&k=64", 2 * 4 * 64 * 64),
    ("POST", "gemm?m=8&n=256&b=layer.0.weight", 4 * 8 * 256),
    ("POST", "gemm?m=512&n=512&k=512", 2 * 4 * 512 * 512),
    ("POST", "attention?heads=4&sq=64&d=64&dtype=f32", 3 * 4 * 4 * 64 * 64),
    ("POST", f"conv2d?{CONV}", 4 * (16 * 28 * 28 + 16 * 16 * 9)),
    ("POST", "reduce?shape=256,1024&op=mean", 4 * 256 * 1024),
    ("POST", "softmax?shape=128,1000", 4 * 128 * 1000),
    ("POST", "gemm?m=0", 0),
    ("GET", "tensors/none", 0),
]
JOB = ("POST", "gemm?m=256&n=256&k=256", 2 * 4 * 256 * 256)


def send(url, method, target, length, **headers):
    return requests.request(method, f"{url}/{target}", data=bytes(length), headers=headers, timeout=PATIENCE_S)


def load(url, stop):
    """Threads that send requests until `stop` is set."""
    def client(number):
        for sent, request in enumerate(itertools.cycle(REQUESTS)):
            if stop.wait(0.01 * number):
                return
            send(url, *request)
            if sent % 100 == number:
                send(url, *JOB, Prefer="respond-async")

    for i in range(2):
        name = f"tensors/layer.{i}.weight"
        requests.put(f"{url}/{name}?shape=256,256", data=bytes(4 * 256 * 256), timeout=PATIENCE_S).raise_for_status()
    return [threading.Thread(target=client, args=(number,)) for number in range(1, 5)]


@contextlib.contextmanager
def loaded(gemmd, seconds):
    """The URL of a daemon that has had load for so many seconds, and still has."""
    daemon, stop = Daemon(gemmd, "--backend=cpu"), threading.Event()
    clients = []
    try:
        daemon.wait_until_listening().wait_until_ready()
        clients = load(daemon.url, stop)
        for client in clients:
            client.start()
        time.sleep(seconds)
        yield daemon.url
    finally:
        stop.set()
        for client in clients:
            client.join()
        daemon.close()


def take(url, folder, most):
    with browser() as driver:
        page = Page(driver)
        for dark, width in itertools.product((False, True), WIDTHS):
            page.size(width, dark)
            page.open(url)
            page.until(lambda: page.run("return arrived.size") == 2, "the figures")
            height = min(page.run("return document.documentElement.scrollHeight"), most)
            picture = driver.execute_cdp_cmd("Page.captureScreenshot", {
                "captureBeyondViewport": True,
                "clip": {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}})
            file = folder / f"{'dark' if dark else 'light'}-{width}.png"
            file.write_bytes(base64.b64decode(picture["data"]))
            print(file)
        driver.get("about:blank")  # the stream of samples ends before the daemon


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--gemmd", help="path of the daemon to start")
    source.add_argument("--url", help="address of a daemon that runs")
    parser.add_argument("--seconds", type=float, default=60,
                        help="how long the daemon has load before the pictures are taken")
    parser.add_argument("--height", type=int, default=2**31,
                        help="the most pixels of a picture from top to bottom; default: the whole page")
    arguments = parser.parse_args()
    if CHROMIUM is None or DRIVER is None:
        sys.exit("screenshots.py: there is no Chromium: install the packages chromium and chromium-driver")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        take(arguments.url or stack.enter_context(loaded(arguments.gemmd, arguments.seconds)), arguments.folder, arguments.height)


if __name__ == "__main__":
    main()
