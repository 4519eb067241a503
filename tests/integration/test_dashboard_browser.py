"""The page at / in Chromium: what it shows, what it does when it is clicked, and that it says nothing
on the console."""

import functools
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import requests
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from browser import daemon, driver, needs_chromium, page  # noqa: F401
from daemon import PATIENCE_S, Daemon
from reserved_port import ReservedPort
from wire import Wire

pytestmark = needs_chromium
TOKEN = "the-token-of-alice"
ROOT = Path(__file__).resolve().parents[2]


def multiply(daemon, m=8, n=8, k=8, **headers):
    return requests.post(f"{daemon.url}/gemm?m={m}&n={n}&k={k}", data=bytes(4 * (m * k + k * n)),
                         headers=headers, timeout=PATIENCE_S)


def test_it_shows_a_live_daemon(page, daemon):
    for _ in range(5):
        assert multiply(daemon).status_code == 200
    page.open(daemon.url)
    page.until(lambda: page.text("status") == "ready", "the state")
    page.until(lambda: re.match("stateready.*live", page.text("health")), "the strip")
    labels = """return [...document.querySelectorAll('#roofline-plot circle')].map(
        (point) => point.getAttribute('aria-label'))"""
    point = re.compile(r"gemm f32 by \w+, m ≤ 16, n ≤ 16, k ≤ 16: .*FLOP/s at 1\.33 FLOP/byte")
    page.until(lambda: any(map(point.match, page.run(labels))), "a point of the roofline")
    page.until(lambda: "gemm: receive" in page.text("stage-bars"), "the stages")
    page.until(lambda: len(page.driver.find_elements(By.CSS_SELECTOR, "#charts svg")) == 9, "the charts")
    assert page.errors() == []


def test_every_operation_is_shown(page, daemon):
    """The rates and the stages by operation, a point of the roofline, and requests that failed."""
    conv = "channels=1&height=2&width=2&filters=1&filter_h=1&filter_w=1"
    bodies = {"attention?heads=1&sq=2&d=2&dtype=f32": 48, "conv2d?" + conv: 20, "reduce?shape=2,2": 16,
              "softmax?shape=2,2": 16, "experts?m=2&n=2&k=2&count=1": 40}
    for target, length in bodies.items():
        answer = requests.post(f"{daemon.url}/{target}", data=bytes(length), timeout=PATIENCE_S)
        assert answer.status_code == 200, answer.text
        refused = requests.post(f"{daemon.url}/{target}&kernel=none", data=bytes(length), timeout=PATIENCE_S)
        assert refused.status_code == 422
    page.open(daemon.url)
    page.until(lambda: page.text("health").startswith("stateready"), "the strip")
    newest = page.until(lambda: requests.get(f"{daemon.url}/dashboard/history", timeout=PATIENCE_S).json()[
        "samples"][-1:], "a sample")[0]
    operations = set(newest["requests"]) - {"tensor", "other"}
    assert operations >= {"gemm", *(target.split("?")[0] for target in bodies)}
    for operation in operations:
        page.until(lambda name=operation: f"{name}: " in page.text("charts"), f"the rate of {operation}")
    for operation in operations - {"gemm", "infer"}:
        page.until(lambda name=operation: f"{name}: " in page.text("stage-bars"), f"the stages of {operation}")
        page.until(lambda name=operation: page.run(
            "return [...document.querySelectorAll('#roofline-plot circle')].some("
            "(point) => point.getAttribute('aria-label').startsWith(arguments[0]))", f"{name} f32 by"), operation)
        page.until(lambda name=operation: f"POST /{name}?" in page.text("request-rows"), f"the refused {operation}")
    assert page.errors() == []


def test_the_roofs_of_a_device_with_peaks(page, daemon):
    """The peaks of an H100, which no machine without one has."""
    page.open(daemon.url)
    page.until(lambda: page.text("roofline-note"), "the daemon's own roofline")
    # One script reads what it has had shown, before the page shows the daemon's own roofline again.
    shown = page.run("""
        const cell = {op: "gemm", kernel: "wgmma", lengths: ["m", "n", "k"], up_to: [8192, 8192, null], works: 3,
          bytes: 1e9, busy_seconds: 1};
        showRoofline({peak: {flops: {f16: 989e12, f32: 67e12, bf16: 980e12}, bytes_per_second: 3.35e12},
          kernels: [{...cell, dtype: "f16", flops: 5e14}, {...cell, dtype: "f32", flops: 1e9, busy_seconds: 3},
            {...cell, dtype: "bf16", flops: 1e12, busy_seconds: 1e-6}]});
        return {
          plot: document.getElementById("roofline-plot").textContent,
          note: document.getElementById("roofline-note").textContent,
          points: [...document.querySelectorAll("#roofline-plot circle")].map((point) => [
            point.getAttribute("aria-label"), Number(point.getAttribute("r")), point.cx.baseVal.value,
            point.cy.baseVal.value]),
          roofs: [...document.querySelectorAll("#roofline-plot .roof")].map((roof) => roof.getAttribute("d")),
          names: [...document.querySelectorAll("#roofline-plot .roof-name")].map((name) => [
            name.textContent.split(":")[0], name.getBoundingClientRect().top, name.getBoundingClientRect().bottom]),
        };""")
    assert "f16: 989\u00a0TFLOP/s" in shown["plot"] and "f32: 67\u00a0TFLOP/s" in shown["plot"]
    assert "not known" not in shown["note"]
    (slow, slow_radius, slow_x, slow_y), (fast, fast_radius, fast_x, fast_y) = shown["points"][:2]  # by their share of time
    assert "m ≤ 8192, n ≤ 8192, k > 8192" in fast and "75\u00a0% of the time" in slow
    assert slow_radius > fast_radius and fast_x > slow_x and fast_y < slow_y
    shapes = shown["roofs"]
    assert len(shapes) == 3 and not any("NaN" in shape or "Infinity" in shape for shape in shapes)
    assert [name for name, _, _ in shown["names"]] == ["f32", "bf16", "f16"]
    assert all(other[2] - 2 <= one[1] for one, other in zip(shown["names"], shown["names"][1:])), "names overlap"
    assert page.errors() == []


def test_charts_tell_their_values_by_keyboard(page, daemon):
    page.open(daemon.url)
    page.until(lambda: page.run("return document.querySelectorAll('#charts path.series').length"), "charts")
    chart = page.driver.find_element(By.CSS_SELECTOR, "#charts svg")
    page.run("arguments[0].focus()", chart)
    chart.send_keys(Keys.HOME)
    caption = "return document.querySelector('#charts figcaption').textContent"
    live = "return document.querySelector('#charts figcaption').ariaLive"
    page.until(lambda: re.match(r"Requests by operation at \d\d:\d\d:\d\d.*gemm: [\d.,]+/s", page.run(caption)),
               "a time")
    assert page.run(live) == "polite"
    first = page.run("return cursorAt")
    chart.send_keys(Keys.END)
    assert page.run("return cursorAt") >= first
    chart.send_keys(Keys.ESCAPE)
    page.until(lambda: " at " not in page.run(caption), "the newest values")
    assert page.run(live) is None  # the newest values are not read out each second
    assert page.errors() == []


# A daemon of 20 minutes: the samples of seconds of the last 15 minutes, and those of 15 seconds before. One second has
# a thousand times the requests of the others.
OLD_DAEMON = """
    const end = Math.floor(Date.now() / 1000), zeros = Object.fromEntries(computing.map((op) => [op, 0]));
    const sample = (time, seconds, gemm) => ({...samples[samples.length - 1], time, seconds, flops: 0,
      requests: {...zeros, gemm, tensor: 0, other: 0}});
    addSamples = () => {};  // no sample of the daemon's own is added
    readHours = async () => {};
    samples = Array.from({length: 900}, (_, i) => sample(end - 899 + i, 1, i === 450 ? 20000 : 20 + i % 3));
    hours = Array.from({length: 80}, (_, i) => sample(end - 1200 + 15 * (i + 1), 15, 300));
    show();"""


def old_daemon(page, daemon):
    page.open(daemon.url)
    page.until(lambda: page.run("return document.querySelectorAll('#charts path.series').length"), "charts")
    page.run(OLD_DAEMON)


SHOWN = "return [shown.to - shown.from, shown.list.length, shown.list[0].seconds]"


def press(page, group, text):
    page.run("[...document.querySelectorAll(`${arguments[0]} button`)].find((each) => each.textContent === arguments[1]).click()",
             group, text)


def test_the_script_takes_its_pictures(gemmd, tmp_path):
    """Of a daemon that it starts: four whole pages."""
    script = ROOT / "tests/bench/screenshots.py"
    subprocess.run([sys.executable, str(script), "--gemmd", str(gemmd), "--seconds", "2", str(tmp_path)], check=True,
                   capture_output=True, timeout=4 * PATIENCE_S)
    sizes = {}
    for file in tmp_path.iterdir():
        head = file.read_bytes()[:24]
        assert head[:8] == b"\x89PNG\r\n\x1a\n"
        sizes[file.name] = (int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big"))
    assert {name: width for name, (width, _) in sizes.items()} == {
        "light-1400.png": 1400, "light-400.png": 400, "dark-1400.png": 1400, "dark-400.png": 400}
    assert all(height > 2000 for _, height in sizes.values())


def test_ranges(page, daemon):
    """Seconds as far as there are any, and longer samples for what lies before."""
    old_daemon(page, daemon)
    for text, seconds in [("1 min", 60), ("5 min", 300), ("15 min", 899)]:
        press(page, "#ranges", text)
        width, count, step = page.run(SHOWN)
        assert width == pytest.approx(seconds, abs=1) and step == 1 and abs(count - seconds) <= 2, text
        pressed = page.driver.find_elements(By.CSS_SELECTOR, "#ranges button[aria-pressed=true]")
        assert [button.text for button in pressed] == [text]
    press(page, "#ranges", "1 h")
    width, count, step = page.run(SHOWN)
    assert width == pytest.approx(1200 - 15, abs=1) and (count, step) == (80, 15)
    assert "a point for each 15 seconds" in page.text("charts-note")
    assert page.errors() == []


def test_the_hours_of_a_daemon(page, daemon):
    page.open(daemon.url)
    page.until(lambda: page.text("status") == "ready", "the state")
    press(page, "#ranges", "6 h")
    page.until(lambda: page.run("return hours.length") > 0, "15 seconds")
    known = requests.get(f"{daemon.url}/dashboard/history?step=15", timeout=PATIENCE_S).json()["samples"]
    read = page.run("return hours")
    assert [one for one in known if one["number"] <= len(read)] == read


def test_a_part_is_zoomed_by_dragging(page, daemon):
    old_daemon(page, daemon)
    before = page.run("return [shown.from, shown.to]")
    plot = page.driver.find_elements(By.CSS_SELECTOR, "#charts svg")[1]
    page.run("arguments[0].scrollIntoView({block: 'center'})", plot)
    ActionChains(page.driver).move_to_element_with_offset(plot, -20, 0).click_and_hold().move_by_offset(60, 0).perform()
    assert page.run("return Number(document.querySelectorAll('#charts svg')[1].querySelector('.chosen').getAttribute('width'))"
                    ) == pytest.approx(60, abs=2)
    ActionChains(page.driver).release().perform()
    start, end, width = page.run("return [shown.from, shown.to, CHARTS[1].plot.clientWidth - CHARTS[1].left - CHARTS[1].right]")
    assert before[0] < start < end < before[1]
    assert end - start == pytest.approx(60 / width * (before[1] - before[0]), rel=0.1)
    page.run("show()")  # as each second does
    assert page.run("return [shown.from, shown.to]") == [start, end]
    page.click("zoom-out")
    assert page.run("return [shown.from, shown.to]") == before and not page.find("zoom-out").is_displayed()
    page.run("arguments[0].focus()", plot)
    plot.send_keys("+")
    assert page.run("return shown.to - shown.from") == pytest.approx((before[1] - before[0]) / 2)
    plot.send_keys(Keys.ESCAPE)
    assert page.run("return [shown.from, shown.to]") == before
    assert page.errors() == []


def test_outliers_do_not_flatten_the_rest(page, daemon):
    """The axis ends at the p99, and a mark says that there is more; a logarithmic axis shows all."""
    old_daemon(page, daemon)
    ends = "return Math.max(...valueAxis(CHARTS[0], CHARTS[0].series.map(([, value]) => shown.list.map(value))).ticks)"
    marks = "return CHARTS[0].plot.querySelectorAll('.outlier').length"
    assert page.run(ends) < 50 and page.run(marks) == 1
    assert "▲ up to 20\u00a0k/s" in page.run("return CHARTS[0].plot.textContent")
    page.click("scale")
    assert page.find("scale").get_attribute("aria-pressed") == "true"
    assert page.run(ends) >= 20000 and page.run(marks) == 0
    heights = page.run("""const {y, end} = valueAxis(CHARTS[0], CHARTS[0].series.map(([, value]) => shown.list.map(value)));
        return [y(end / 100) - y(end / 10), y(end / 10) - y(end)]""")
    assert heights[0] == pytest.approx(heights[1]) and heights[0] > 5
    assert page.errors() == []


def test_requests_are_stacked(page, daemon):
    """Each operation's area lies on that of the one before, and the last one ends at the sum; a logarithmic axis, on
    which no sum can be read, has lines."""
    old_daemon(page, daemon)
    areas = "return [...CHARTS[0].plot.querySelectorAll('path.area')].map((area) => area.getAttribute('d'))"
    lines = "return CHARTS[0].plot.querySelectorAll('path.series').length"
    page.run("""for (const sample of samples) sample.requests = Object.fromEntries(computing.map((op, i) => [op, i < 2 ? 4 + 8 * i : 0]));
        show()""")
    tops = [float(re.match(r"M\S+ (\S+?)L", path).group(1)) for path in page.run(areas)]
    heights = page.run("""const {y} = valueAxis(CHARTS[0], stack(CHARTS[0].series.map(([, value]) => shown.list.map(value))));
        return [4, 16].map((sum) => y(sum / shown.list[0].seconds))""")
    assert tops[0] == pytest.approx(heights[0], abs=0.1) and page.run(lines) == 0
    assert tops[1:] == pytest.approx([heights[1]] * (len(tops) - 1), abs=0.1) and len(tops) > 2
    page.click("scale")
    assert page.run(areas) == [] and page.run(lines) == len(tops)
    assert page.errors() == []


@pytest.mark.parametrize("width", [400, 1400])
def test_labels_of_times_have_room(width, page, daemon):
    """At least two, none over its neighbour, whatever the length of time."""
    page.size(width, False)
    old_daemon(page, daemon)
    page.run("range = 6 * 3600")
    for seconds in (7, 20, 45, 90, 170, 181, 290, 600, 890, 1700, 3599, 9000, 21600):
        boxes = page.run("""const end = samples[samples.length - 1].time;
            zoomTo(end - arguments[0], end);
            return [...CHARTS[0].plot.querySelectorAll('text')].filter((text) => /^[0-9]+:[0-9:]+$/.test(text.textContent))
                .map((text) => [text.getBoundingClientRect().left, text.getBoundingClientRect().right])""", seconds)
        assert len(boxes) >= 2, seconds
        assert all(one[1] + 4 < other[0] for one, other in zip(boxes, boxes[1:], strict=False)), (seconds, boxes)
    assert page.errors() == []


def test_what_is_wrong_comes_first(page, start):
    daemon = start("--backend=cpu")
    page.open(daemon.url)
    page.until(lambda: page.text("wrong-title") == "Nothing is wrong", "the tile")
    first = page.driver.find_element(By.CSS_SELECTOR, "main > section > :first-child")
    assert first.get_attribute("id") == "wrong" and first.get_attribute("data-state") == "good"
    assert multiply(daemon, m=0).status_code == 400
    page.until(lambda: "Clients send wrong requests (other 4xx)" in page.text("wrong-list"), "the wrong request")
    link = page.driver.find_element(By.CSS_SELECTOR, "#wrong-list a")
    assert page.find(link.get_attribute("hash").removeprefix("#")).is_displayed()
    states = page.run("""
        const last = samples[samples.length - 1];
        const bad = {...last, ready: false, failed: 5, refused: 1, queue: {...last.queue, share: 0.95}};
        return problems([bad], false)""")
    assert [state for state, _, _ in states] == sorted((state for state, _, _ in states), key=["bad", "warn"].index)
    text = " ".join(sentence for _, sentence, _ in states)
    for expected in ("not ready", "fail (5xx)", "refused (429)", "95"):
        assert expected in text
    for _, _, section in states:
        assert page.find(section).is_displayed(), section
    page.run("heardAt = Date.now() - 60000; readEvents = () => new Promise(() => {}); addSamples = () => {}; showHealth()")
    assert "has not answered for 1 min" in page.text("wrong-list")


def test_what_waits_and_why(page, start):
    daemon = start("--backend=cpu", "--timeout", "600s")
    with Wire(daemon.address) as travelling:
        travelling.send(b"POST /gemm?m=64&n=64&k=64 HTTP/1.1\r\nHost: x\r\nContent-Length: 32768\r\nExpect: 100-continue\r\n\r\n")
        assert travelling.receive().status == 100
        page.open(daemon.url)
        page.until(lambda: page.text("waiting-rows").startswith("for the client or the network1"), "the request")
        assert "for the device0" in page.text("waiting-rows")
    assert page.errors() == []


def test_a_row_for_each_device(page, daemon):
    """Of several GPUs, whose figures are those of a daemon that has them."""
    page.open(daemon.url)
    page.until(lambda: page.text("device-rows").startswith("cpu 0"), "the device")
    page.until(lambda: "%" in page.text("device-rows"), "how busy it is")
    cells = page.run("""
        const of = (device, busy, lost) => `gemmd_per_device_lost{device="${device}",uuid="GPU-${device}"} ${lost}
        gemmd_per_device_requests_waiting{device="${device}",uuid="GPU-${device}"} 3
        gemmd_per_device_memory_used_bytes{device="${device}",uuid="GPU-${device}"} 1024
        gemmd_per_device_memory_capacity_bytes{device="${device}",uuid="GPU-${device}"} 4096
        gemmd_gpu_power_watts{uuid="GPU-${device}"} 350
        gemmd_per_device_busy_seconds_total{device="${device}",uuid="GPU-${device}"} ${busy}`.replace(/^ +/gm, "");
        deviceList = [0, 1].map((index) => ({backend: "cuda", index, name: "H200", uuid: `GPU-${index}`, lost: false}));
        figuresBefore = {series: parse(of(0, 10, 0) + "\\n" + of(1, 10, 0)), at: 100};
        showDevices({series: parse(of(0, 15, 0) + "\\n" + of(1, 10, 1)), at: 110});
        return [...document.querySelectorAll("#device-rows tr")].map((row) => [...row.children].map((cell) => cell.textContent))""")
    assert [row[:5] for row in cells] == [["cuda 0", "computes", "50\u00a0%", "3", "0"],
                                          ["cuda 1", "lost", "0\u00a0%", "3", "0"]]
    assert {row[5] for row in cells} == {"1\u00a0KiB of 4\u00a0KiB"}
    assert {tuple(row[7:]) for row in cells} == {("350 W", "H200")}


def test_a_daemon_of_the_cpu_speaks_of_the_cpu(page, daemon):
    page.open(daemon.url)
    page.until(lambda: "core" in page.text("tile-note"), "the words")
    said = page.run("return document.querySelector('main').textContent")
    assert "thread block" not in said and "device memory" not in said
    assert page.text("gpu-title") == "Memory" and not page.find("gpu-none").is_displayed()
    assert page.text("tile-says").startswith("Step 1: the core loads")


def test_requests_that_failed_fit_a_narrow_window(page, daemon):
    assert multiply(daemon, m=0, **{"X-Request-Id": "w" * 60}).status_code == 400
    page.size(400)
    page.open(daemon.url)
    page.until(lambda: "w" * 60 in page.text("request-rows"), "the request")
    box, cells = page.run("""const scroll = document.querySelector("#requests .scroll");
        return [[scroll.scrollWidth, scroll.clientWidth], [...document.querySelectorAll("#request-rows td")].map((cell) => [
          cell.getBoundingClientRect().left, cell.getBoundingClientRect().right])]""")
    assert box[0] <= box[1]
    assert all(0 <= left < right <= 400 for left, right in cells)


def test_tensors_jobs_and_devices_fit_a_narrow_window(page, start):
    """A row is a block of lines, in which each value has the name of its column beside it."""
    daemon = start()
    name = "w" * 100
    assert requests.put(f"{daemon.url}/tensors/{name}?shape=1,2,3,4&evictable=1", data=bytes(96),
                        timeout=PATIENCE_S).status_code == 201
    assert multiply(daemon, Prefer="respond-async").status_code == 202
    page.size(400)
    page.open(daemon.url)
    page.until(lambda: name in page.text("tensors") and "done" in page.text("jobs"), "the tensor and the job")
    page.until(lambda: "%" in page.text("device-rows"), "how busy the device is")
    boxes, cells = page.run("""return [
        [...document.querySelectorAll(".blocks")].map((box) => [box.scrollWidth, box.clientWidth]),
        [...document.querySelectorAll("#tensors *, #jobs *, #device-rows *")].map((cell) => [
          cell.getBoundingClientRect().left, cell.getBoundingClientRect().right])]""")
    assert len(boxes) == 6 and all(inside <= outside for inside, outside in boxes)
    assert cells and all(0 <= left < right <= 400 for left, right in cells)
    shown = page.run("return [...document.querySelectorAll('#tensors > tr > *')].map((cell) => cell.dataset.name)")
    assert shown == ["tensor", "type", "shape", "memory", "on device"]


def test_a_product_is_tried(page, daemon):
    page.open(daemon.url)
    values = np.arange(1, 13)
    inputs = page.driver.find_elements(By.CSS_SELECTOR, "#try-operands input")
    assert len(inputs) == 12
    for element, value in zip(inputs, values):
        page.run("arguments[0].value = arguments[1]", element, str(value))
    page.click("try-run")
    page.until(lambda: "Computed by" in page.text("try-note"), "the answer")
    cells = page.run("return [...document.querySelectorAll('#try-answer td')].map(c => Number(c.textContent))")
    assert cells == (values[:6].reshape(2, 3) @ values[6:].reshape(3, 2)).ravel().tolist()
    assert "kernel" in page.text("try-timing-key")
    page.run("arguments[0].value = 'seven'", inputs[3])
    page.click("try-run")
    page.until(lambda: page.text("try-note") == "A, row 2, column 1 is not a number.", "the mistake")
    assert page.text("try-answer") == page.text("try-timing") == ""
    inputs[0].clear()
    inputs[0].send_keys("1e3")
    page.fill("try-m", 4)
    first = page.driver.find_element(By.CSS_SELECTOR, "#try-operands input")
    assert first.get_attribute("value") == "1e3"
    page.click("try-random")
    first = page.driver.find_element(By.CSS_SELECTOR, "#try-operands input")
    assert first.get_attribute("value") != "1e3"
    assert page.errors() == []


def test_an_answer_that_is_no_document(page, daemon):
    """Of a proxy between browser and daemon."""
    page.open(daemon.url)
    page.run("window.fetch = async () => new Response('<html>', {status: 502, statusText: 'Bad Gateway'})")
    page.click("try-run")
    page.until(lambda: page.text("try-note") == "502: Bad Gateway", "the status")


def test_large_random_operands_and_what_is_refused(page, start):
    daemon = start("--backend=cpu", "--max-work=1000000")
    page.open(daemon.url)
    for name in "mnk":
        page.fill(f"try-{name}", 50)
    page.click("try-run")
    page.until(lambda: "The first rows and columns" in page.text("try-note"), "the answer")
    assert page.text("try-answer").startswith("C, 50 × 50")
    page.fill("try-k", 1000)
    page.click("try-run")
    page.until(lambda: page.text("try-note").startswith("413: "), "the refusal")
    page.fill("try-m", 16000)
    page.click("try-run")
    page.until(lambda: "too large for this page" in page.text("try-note"), "the page's own limit")
    page.run("showDocuments()")
    kept = "return document.getElementById('request-rows').textContent"
    page.until(lambda: "413" in page.run(kept), "the failed request in the list")


def test_its_code_runs(page, daemon, tmp_path):
    page.open(daemon.url)
    code = {}
    for language in ("curl", "python", "c"):
        button = page.driver.find_element(By.CSS_SELECTOR, f"#try-languages button[value={language}]")
        page.run("arguments[0].click()", button)
        assert button.get_attribute("aria-pressed") == "true"
        code[language] = page.text("try-code")
    assert f"'{daemon.url}/gemm?m=2&n=2&k=3'" in code["curl"]
    assert "a[M * K] = {1, 1, 2, 2, 3, 1};" in code["c"]
    answer = subprocess.run(["bash", "-euc", f"set -o pipefail; {code['curl']}"], cwd=tmp_path,
                            capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    # A is [[1, 1, 2], [2, 3, 1]], and B is [[1, 1], [2, 3], [4, 1]].
    assert answer.stdout.split() == ["11", "6", "12", "12"]
    (tmp_path / "product.c").write_text(code["c"], encoding="utf-8")
    subprocess.run(["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "product.c",
                    f"-I{ROOT}/client/include", f"-I{ROOT}/proto/include"], cwd=tmp_path, check=True)
    found = {}
    exec(code["python"].replace("print(c)", ""), found)  # pylint: disable=exec-used
    assert found["c"].tolist() == [[11, 6], [12, 12]]


def test_tiles(page, daemon):
    page.open(daemon.url)
    counts = "return [...document.querySelectorAll('#tile-counts td')].map(c => c.textContent)"
    assert page.run(counts)[:3] == ["268,435,456", "8,388,608", "32.0"]
    page.find("tile-size").send_keys(Keys.ARROW_RIGHT)
    assert page.run(counts)[:3] == ["268,435,456", "4,194,304", "64.0"]
    assert page.text("tile-step-value") == "1 of 8"
    page.find("tile-step").send_keys(Keys.ARROW_RIGHT)
    assert page.text("tile-says").startswith("Step 2: the core loads 64 × 64 of A")
    page.click("tile-play")
    page.until(lambda: page.text("tile-step-value") != "2 of 8", "the next step")
    page.click("tile-play")
    assert page.text("tile-play") == "Play"
    assert page.errors() == []


@pytest.mark.parametrize("sizes", [(1, 65536, 1), (65536, 1, 1), (99999999, 99999999, 99999999)])
def test_tiles_of_lopsided_matrices(sizes, page, daemon):
    page.open(daemon.url)
    page.until(lambda: page.run("return document.querySelectorAll('#tile-roofline circle').length"), "tiles")
    for name, size in zip("mnk", sizes):
        page.fill(f"tile-{name}", size)
    labels = page.run("""return [...document.querySelectorAll("#tile-plot text")].map((text) => {
        const [box, plot] = [text, text.ownerSVGElement].map((each) => each.getBoundingClientRect());
        return [text.textContent, box.left - plot.left, box.right - plot.left, box.top, box.bottom, plot.width];})""")
    assert labels[0][0] == f"A, {min(65536, sizes[0])} × {min(65536, sizes[2])}"
    for i, (name, left, right, top, bottom, width) in enumerate(labels):
        assert left >= 0 and right <= width, name
        for other, left2, right2, top2, bottom2, _ in labels[:i]:
            assert right < left2 or right2 < left or bottom <= top2 or bottom2 <= top, f"{name} lies on {other}"


def test_the_address_names_a_section(page, daemon):
    page.open(daemon.url, "/#tiles")
    page.until(lambda: page.run("return arrived.size") == 2, "the figures")
    assert page.run("return scrollY") > 0
    page.until(lambda: 0 <= page.run("return document.getElementById('tiles').getBoundingClientRect().top") < 900,
               "the section")
    assert page.find("sections").is_displayed()
    for link in page.driver.find_elements(By.CSS_SELECTOR, "#sections a"):
        assert page.find(link.get_attribute("hash").removeprefix("#")).is_displayed()
    page.driver.find_element(By.LINK_TEXT, "API").click()
    page.until(lambda: page.text("summary"), "the page of the API")


def test_every_control_has_a_name(page, daemon):
    page.open(daemon.url)
    page.until(lambda: page.run("return arrived.size") == 2, "the figures")
    for element in page.driver.find_elements(By.CSS_SELECTOR, "main input, main button, main select, main [tabindex]"):
        assert element.accessible_name or not element.is_displayed(), element.get_attribute("outerHTML")
    meters = page.driver.find_elements(By.CSS_SELECTOR, "meter")
    assert meters and {meter.get_attribute("aria-hidden") for meter in meters} == {"true"}


@pytest.mark.parametrize("width", [360, 1280])
def test_charts_stay_in_place_while_their_values_change(width, page, daemon):
    page.size(width)
    page.open(daemon.url)
    page.until(lambda: page.run("return document.querySelectorAll('#charts path.series').length"), "charts")
    before, after, too_wide = page.run("""
        const places = () => [...document.querySelectorAll("#charts svg")].map(
          (plot) => plot.getBoundingClientRect().top);
        const before = places();
        for (const value of document.querySelectorAll("#charts figcaption span"))
          value.textContent = value.textContent.replace(/: .*/, `: ${perSecond(8888.8)}`);
        for (const title of document.querySelectorAll("#charts figcaption b")) title.append(" at 12:34:56");
        const captions = [...document.querySelectorAll("#charts figcaption")];
        return [before, places(), captions.filter((each) => each.scrollWidth > each.clientWidth).map(
          (each) => each.textContent)];""")
    assert after == before and too_wide == []


def test_points_of_the_roofline_by_keyboard(page, daemon):
    assert multiply(daemon).status_code == multiply(daemon, m=100).status_code == 200
    page.open(daemon.url)
    count = "return document.querySelectorAll('#roofline-plot circle').length"
    page.until(lambda: page.run(count) > 1, "the points")
    page.run("window.draw = showRoofline; window.showRoofline = () => {}")  # the points stay those that are there
    stops = page.driver.find_elements(By.CSS_SELECTOR, "#roofline-plot circle[tabindex='0']")
    assert len(stops) == 1
    page.run("arguments[0].focus()", stops[0])
    seen = {page.text("roofline-value")}
    for _ in range(page.run(count) - 1):
        page.driver.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
        seen.add(page.text("roofline-value"))
    assert len(seen) == page.run(count)
    last = page.text("roofline-value")
    page.run("draw(shownKernels)")
    assert page.run("return document.activeElement.getAttribute('aria-label')") == last
    page.driver.switch_to.active_element.send_keys(Keys.HOME)
    assert page.text("roofline-value") != last
    assert len(page.driver.find_elements(By.CSS_SELECTOR, "#roofline-plot circle[tabindex='0']")) == 1


def test_the_roofline_follows_the_width_of_the_window(page, daemon):
    page.open(daemon.url)
    page.until(lambda: page.run("return arrived.size") == 2, "the figures")
    page.run("readTensors = () => new Promise(() => {})")  # no document comes that would have it drawn again
    page.size(400)
    page.until(lambda: page.run("""const plot = document.getElementById("roofline-plot");
        return plot.viewBox.baseVal.width === plot.clientWidth"""), "the new width")


@pytest.mark.parametrize("path", ["/", "/docs"])
@pytest.mark.parametrize("dark", [False, True])
def test_colours_have_contrast(dark, path, page, daemon):
    """At least 4.5 to 1 on the background of a section, as WCAG 2.1 asks for (1.4.3, level AA)."""
    page.size(1280, dark)
    page.open(daemon.url, path)
    names = ["text", "faint", "accent", "good", "warn", "bad", *(f"c{i}" for i in range(6))]
    card, *colours = page.run("""const style = getComputedStyle(document.documentElement);
        return arguments[0].map((name) => style.getPropertyValue(`--${name}`).trim())""", ["card", *names])

    def luminance(colour):
        parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055)**2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    for name, colour in zip(names, colours):
        low, high = sorted((luminance(card), luminance(colour)))
        assert (high + 0.05) / (low + 0.05) >= 4.5, name


def test_an_idle_daemon(page, start):
    """No table stands there without a row, and errors are listed by their status."""
    daemon = start("--backend=cpu")
    page.open(daemon.url)
    page.until(lambda: page.text("tensors-note") == "No tensors are resident.", "the tensors")
    for hidden in ("tensors", "jobs", "batches"):
        assert not page.find(hidden).find_element(By.XPATH, "./..").is_displayed(), hidden
    assert requests.get(f"{daemon.url}/nothing", timeout=PATIENCE_S).status_code == 404
    assert requests.post(f"{daemon.url}/gemm?m=0", timeout=PATIENCE_S).status_code == 400
    page.until(lambda: page.run("showDocuments(); return [...document.querySelectorAll('#errors th')].map("
                                "(each) => each.textContent)") == ["400", "404"], "the errors")
    assert multiply(daemon).status_code == 200
    page.until(lambda: page.find("batches").is_displayed(), "the launch")
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert page.find("charts").is_displayed() and not page.find("sections").is_displayed()
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_nothing_overflows(width, dark, page, daemon):
    """Nor with the longest name that a tensor can have."""
    name = "W" * 128
    assert requests.put(f"{daemon.url}/tensors/{name}?shape=2,2", data=bytes(16),
                        timeout=PATIENCE_S).status_code in (200, 201)
    page.size(width, dark)
    page.open(daemon.url)
    page.until(lambda: name in page.text("tensors"), "the tensor")
    page.until(lambda: page.run("return document.querySelectorAll('#charts path.series').length"), "charts")
    assert page.run("return document.documentElement.scrollWidth") <= width
    outside = page.run("""
        return [...document.querySelectorAll("main > section")].filter((section) =>
          section.getBoundingClientRect().right > innerWidth || section.scrollWidth > section.clientWidth + 1
        ).map((section) => section.id)""")
    assert outside == []
    page.until(lambda: page.run("return document.querySelectorAll('#tile-roofline circle').length"), "tiles")
    cut_off = page.run("""
        for (const sample of samples) sample.flops = 4.5e8 * sample.seconds;  // for the widest text at an axis
        showCharts();
        return [...document.querySelectorAll("svg.plot text")].filter((text) => {
          const [inner, outer] = [text, text.ownerSVGElement].map((each) => each.getBoundingClientRect());
          return inner.left < outer.left - 1 || inner.right > outer.right + 1;
        }).map((text) => text.textContent)""")
    assert cut_off == []
    color = page.run("return getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", color)[:3])) < 200) == dark


def test_jobs_are_listed(page, daemon):
    job = requests.post(f"{daemon.url}/gemm?m=2&n=2&k=2", data=bytes(32), timeout=PATIENCE_S,
                        headers={"Prefer": "respond-async", "X-Request-Id": "made-for-the-page"})
    assert job.status_code == 202
    page.open(daemon.url)
    page.until(lambda: "made-for-the-page" in page.text("jobs"), "the job")
    assert "gemm" in page.text("jobs") and job.json()["id"] not in page.text("jobs")
    page.until(lambda: "done" in page.text("jobs"), "its end")
    assert "lists jobs without their ids" in page.text("jobs-note")
    assert page.errors() == []


def test_ten_thousand_tensors_stay_usable(page, driver, daemon):
    page.open(daemon.url)
    page.run("""
        const many = Array.from({length: 10000}, (_, i) => ({name: `layer.${String(i).padStart(5, "0")}`,
          dtype: "f32", shape: [2, 2], bytes: 16, evictable: false, memory_bytes: 4096,
          devices: [0]}));
        window.readTensors = async () => many;""")
    # The page's own next look, so that no earlier one ends later.
    page.until(lambda: page.text("tensors-note").startswith("10,000 tensors take 39.1"), "the list")
    listed = functools.partial(driver.find_elements, By.CSS_SELECTOR, "#tensors tr")
    assert len(listed()) == 100
    page.find("tensor-filter").send_keys(".0999")
    assert "10 of them match" in page.text("tensors-note") and len(listed()) == 10
    page.fill("tensor-filter", "layer")
    page.click("tensors-more")
    assert len(listed()) == 1100
    assert page.errors() == []


def test_a_token_is_asked_for(page, start, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text(f"alice:{TOKEN}\nbob:the-poor-token scopes=compute\n", encoding="utf-8")
    daemon = start("--backend=cpu", "--token-file", str(tokens))
    page.driver.get(f"{daemon.url}/")
    page.until(lambda: page.find("ask").is_displayed(), "the question")
    assert not page.find("figures").is_displayed() and not page.find("sections").is_displayed()
    for wrong, why in (("the-wrong-token", "does not know this token"), ("the-poor-token", "lacks the scope metrics")):
        page.find("token").send_keys(wrong + Keys.ENTER)
        page.until(lambda why=why: why in page.text("ask-why") and page.find("ask").is_displayed(), why)
        assert page.find("ask-why").get_attribute("data-state") == "bad"
    page.find("token").send_keys(TOKEN + Keys.ENTER)
    page.until(lambda: page.text("status") == "ready", "the figures")
    assert "Authorization" in page.text("try-code") and TOKEN not in page.text("try-code")
    page.click("try-run")
    page.until(lambda: "Computed by" in page.text("try-note"), "the answer")


def test_a_daemon_that_ends_and_comes_back_is_noticed(page, gemmd):
    port, second = ReservedPort(), None
    first = Daemon(gemmd, "--backend=cpu", listen=(port.address,))
    try:
        first.wait_until_listening().wait_until_ready()
        page.open(first.url)
        page.until(lambda: page.text("status") == "ready", "the first daemon")
        page.until(lambda: page.run("return samples.length") > 2, "samples")
        first.stop()
        page.until(lambda: page.run("return document.body.className") == "stale", "grey figures")
        page.until(lambda: page.text("status") == "no answer", "the state")
        assert "unknown" in page.text("health") and "live" not in page.text("health")
        page.until(lambda: "last answer at" in page.text("identity"), "the time of the last answer")
        assert "up " not in page.text("identity")
        assert page.run("return getComputedStyle(document.querySelector('main')).opacity") == "1"
        second = Daemon(gemmd, "--backend=cpu", listen=(port.address,))
        second.wait_until_listening()
        page.until(lambda: page.text("status") == "ready", "the second daemon")
        page.until(lambda: page.run("return restarts.length") == 1, "the restart")
        page.until(lambda: "restarted at" in page.text("identity"), "the note")
        page.until(lambda: "restart" in page.text("charts"), "the line in the charts")
        assert page.run("return samples.length") > 3
        page.driver.get("about:blank")
        second.stop()
    finally:
        first.close()
        if second is not None:
            second.close()
        port.close()


def test_the_gpu(page, start, gemmd):
    """Figures of a library in place of NVIDIA's NVML (tests/faults/fake_nvml.c)."""
    library = gemmd.parents[1] / "tests" / "nvml"
    daemon = start("--backend=cpu", "--gpu-metrics", "all", environment={
        "LD_LIBRARY_PATH": str(library), "FAKE_NVML": ""})
    page.open(daemon.url)
    page.until(lambda: "350" in page.text("gpus") or "351" in page.text("gpus"), "the power")
    for figure in ("1.76 GHz of 1.98 GHz", "61 °C", "W of 700 W", "75 %"):
        assert figure in page.text("gpus").replace("\u00a0", " "), figure
    assert not page.find("gpu-none").is_displayed()
    assert page.errors() == []
