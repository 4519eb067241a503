"""The page at /docs in Chromium: what it lists, what its forms send and show, and that it says nothing
on the console."""

import subprocess

import ml_dtypes
import numpy as np
import pytest
import requests
from selenium.webdriver.common.by import By

from browser import daemon, driver, needs_chromium, page  # noqa: F401
from daemon import PATIENCE_S

pytestmark = needs_chromium
TOKEN = "the-token-of-alice"
METHODS = ("get", "put", "post", "delete")


class Operation:
    """An operation that is open."""

    def __init__(self, page, name):
        self.page, self.selector = page, f"#op-{name}"
        page.run("document.querySelector(arguments[0]).open = true", self.selector)
        page.until(lambda: self.all("form"), "the form")

    def all(self, selector):
        return self.page.driver.find_elements(By.CSS_SELECTOR, f"{self.selector} {selector}")

    def text(self, selector):
        return self.page.run("return document.querySelector(arguments[0])?.textContent ?? ''",
                             f"{self.selector} {selector}")

    def set(self, label, value):
        """As a user who types into the field, or chooses in the list, under that label."""
        self.page.run("""
            const label = [...document.querySelectorAll(`${arguments[0]} form label`)].find(
              (each) => each.firstChild.textContent.trim() === arguments[1]);
            label.control.value = arguments[2];
            label.control.dispatchEvent(new Event("input", {bubbles: true}));
            label.control.dispatchEvent(new Event("change", {bubbles: true}));""", self.selector, label, str(value))

    def fill(self, values):
        inputs = self.all(".matrices input")
        assert len(inputs) == len(values)
        for element, value in zip(inputs, values):
            self.page.run("""arguments[0].value = arguments[1];
                arguments[0].dispatchEvent(new Event("input", {bubbles: true}))""", element, str(value))

    def send(self, to_the_end=True):
        """The status of the answer, whose body is shown if the test waits for the answer's end."""
        button = self.all("button.send")[0]
        self.page.run("arguments[0].scrollIntoView({block: 'center'})", button)
        self.page.until(button.is_enabled, "the end of the request before")
        button.click()
        self.page.until(lambda: self.text(".answer .headers") and (button.is_enabled() or not to_the_end), "an answer")
        return self.text(".answer .status")

    def numbers(self):
        return [float(cell.text) for cell in self.all(".answer td.number")]


def test_every_operation_is_listed(page, daemon):
    page.open(daemon.url, "/docs")
    paths = requests.get(f"{daemon.url}/openapi.json", timeout=PATIENCE_S).json()["paths"]
    wanted = sorted((method.upper(), path, item[method]["summary"])
                    for path, item in paths.items() for method in METHODS if method in item)
    assert len(wanted) > 45
    listed = page.run("""return [...document.querySelectorAll(".operation > summary")].map((each) =>
        [".method", ".path", ".says"].map((part) => each.querySelector(part).textContent))""")
    assert sorted(tuple(each) for each in listed) == wanted
    links = page.run("""return [...document.querySelectorAll("#index a")].map((link) =>
        [link.querySelector(".method").textContent, link.querySelector(".path").textContent,
         document.getElementById(link.hash.slice(1)).querySelector(".says").textContent])""")
    assert sorted(tuple(each) for each in links) == wanted
    assert page.errors() == []


def test_every_operation_shows_its_parameters_bodies_and_answers(page, daemon):
    page.open(daemon.url, "/docs")
    api = requests.get(f"{daemon.url}/openapi.json", timeout=PATIENCE_S).json()
    page.run("for (const each of document.querySelectorAll('.operation')) each.open = true")
    page.until(lambda: page.run("""return [...document.querySelectorAll(".operation")].every(
        (each) => each.querySelector("form") !== null)"""), "all forms")
    shown = page.run("""return Object.fromEntries([...document.querySelectorAll(".operation")].map((each) =>
        [each.id.slice(3), [...each.querySelectorAll(":scope > .inside > dl")].map((list) =>
          [...list.querySelectorAll(":scope > div > dt")].map((term) => term.firstElementChild.textContent))]))""")

    def name_of(node):
        return api["components"]["parameters"][node["$ref"].split("/")[-1]]["name"] if "$ref" in node else node["name"]

    for item in api["paths"].values():
        for method in METHODS:
            if method not in item:
                continue
            operation = item[method]
            parameters = item.get("parameters", []) + operation.get("parameters", [])
            lists = [sorted(name_of(each) for each in parameters)] if parameters else []
            if "requestBody" in operation:
                lists.append(sorted(operation["requestBody"]["content"]))
            lists.append(sorted(status.replace("default", "other") for status in operation["responses"]))
            assert [sorted(each) for each in shown[operation["operationId"]]] == lists, operation["operationId"]
    text = page.text("op-gemm")
    assert "integer, 1 … 2147483647" in text and "f64 | f32 | f16 | bf16 | f8_e4m3 | i8; default f32" in text
    assert "undefined" not in page.text("operations") and "[object" not in page.text("operations")
    assert page.errors() == []


def test_a_product_is_tried(page, daemon):
    page.open(daemon.url, "/docs#op-gemm")
    gemm = Operation(page, "gemm")
    values = np.arange(1, 13, dtype=float)
    gemm.fill(values)
    assert gemm.send() == "200 OK"
    a, b = values[:6].reshape(2, 3), values[6:].reshape(3, 2)
    assert gemm.numbers() == (a @ b).ravel().tolist()
    headers = gemm.text(".answer .headers")
    assert "gemmd-kernel" in headers and "server-timing" in headers and "x-request-id" in headers
    assert "Server-Timing" in gemm.text(".answer") and "kernel" in gemm.text(".answer .key")
    assert f"{daemon.url}/gemm?m=2&n=2&k=3" in gemm.text("details pre")

    command = gemm.text("details pre")  # as a user pastes it
    pasted = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, check=True,
                            timeout=PATIENCE_S).stdout
    assert np.frombuffer(pasted, np.float32).tolist() == (a @ b).ravel().tolist()

    gemm.set("bias", 1)
    gemm.set("transa", 1)
    gemm.set("dtype", "f16")
    gemm.fill([*a.T.ravel(), *b.ravel(), -100, 0.5])
    assert gemm.send() == "200 OK"
    assert gemm.numbers() == (a @ b + [-100, 0.5]).ravel().tolist()

    gemm.set("m", 40)  # too large for the editor: random numbers
    assert gemm.send() == "200 OK"
    assert "40 × 2, f16; the first 16 × 2 are shown" in gemm.text(".answer")
    assert page.errors() == []


def test_what_cannot_be_sent_and_what_is_refused(page, daemon):
    page.open(daemon.url, "/docs")
    gemm = Operation(page, "gemm")
    gemm.fill([1, 2, 3, "seven", *range(8)])
    gemm.all("button.send")[0].click()
    page.until(lambda: gemm.text("form > .note") == "A, row 2, column 1 is not a number.", "the mistake")
    gemm.set("dtype", "i8")
    for column, wrong in enumerate((128, 1.5, "Infinity"), 1):
        gemm.fill([wrong if i == column else 0 for i in range(1, 13)])
        gemm.all("button.send")[0].click()
        page.until(lambda: gemm.text("form > .note") ==
                   f"A, row 1, column {column} is not a whole number from -128 to 127 (i8).", "the mistake")
    gemm.set("dtype", "f32")
    gemm.fill(range(12))
    gemm.set("kernel", "nosuch")
    assert gemm.send().startswith("422")
    assert "urn:gemmd:error:unsupported" in gemm.text(".answer pre")
    gemm.set("m", 0)
    gemm.all("button.send")[0].click()
    page.until(lambda: gemm.text("form > .note") == "m is not a whole number of at least 1.", "the mistake")
    assert gemm.text(".answer") == ""
    gemm.set("m", 2)
    # The browser itself writes refused requests on the console.
    assert [entry for entry in page.errors() if "422" not in entry["message"]] == []


def test_other_bodies_are_tried(page, daemon, tmp_path):
    page.open(daemon.url, "/docs")
    infer = Operation(page, "v2Infer")
    assert infer.send() == "200 OK"
    assert '"datatype": "FP32"' in infer.text(".answer pre")

    put = Operation(page, "putTensor")
    put.set("name", "docs")
    put.fill([1, 2, 3, 4, 5, 6])
    assert put.send() == "201 Created"
    get = Operation(page, "getTensor")
    get.set("name", "docs")
    assert get.send() == "200 OK" and get.numbers() == [1, 2, 3, 4, 5, 6]

    file = tmp_path / "tensor.npy"
    np.save(file, np.array([[7, 8]], np.float64))
    put.set("shape", "")
    put.set("dtype", "")
    put.set("type", "application/x-npy")
    put.all("input[type=file]")[0].send_keys(str(file))
    assert put.send() == "200 OK", "it replaces the other"
    assert get.send() == "200 OK" and get.numbers() == [7, 8]
    delete = Operation(page, "deleteTensor")
    delete.set("name", "docs")
    assert delete.send() == "204 No Content"
    assert "no body" in delete.text(".answer")

    attention = Operation(page, "attention")
    assert attention.send() == "200 OK" and len(attention.numbers()) == 8
    assert page.errors() == []


def test_reductions_softmaxes_and_convolutions(page, daemon):
    """Their forms begin with a request that is right, and the editor has the operands' shapes."""
    page.open(daemon.url, "/docs")
    reduce = Operation(page, "reduce")
    reduce.fill([1, 2, 3, 4, 5, 6])
    assert reduce.send() == "200 OK" and reduce.numbers() == [6, 15]
    reduce.set("axis", "0")
    reduce.set("op", "max")
    assert reduce.send() == "200 OK" and reduce.numbers() == [4, 5, 6]
    softmax = Operation(page, "softmax")
    softmax.set("lens", "1")
    softmax.fill([1, 2, 5, 0, 0, 3, 3, 0])
    assert softmax.send() == "200 OK"
    assert softmax.numbers() == [1, 0, 0, 0.5, 0.5, 0]
    conv = Operation(page, "conv2d")
    x = list(range(12))
    conv.fill(x + [0, 0, 0, 0, 1, 0, 0, 0, 0])
    assert conv.send() == "200 OK" and conv.numbers() == x
    conv.set("layout", "nhwc")
    conv.set("w_layout", "krsc")
    conv.set("bias", "1")
    assert len(conv.all(".matrices input")) == 12 + 9 + 1
    assert conv.send() == "200 OK" and len(conv.numbers()) == 12
    assert page.errors() == []


def test_events_are_shown_until_they_are_stopped(page, daemon):
    page.open(daemon.url, "/docs")
    events = Operation(page, "dashboardEvents")
    events.send(to_the_end=False)
    page.until(lambda: "data:" in events.text(".answer pre"), "an event")
    page.run("arguments[0].click()", events.all(".row button:not(.send)")[0])
    page.until(lambda: events.text("form > .note") == "stopped", "the end")
    assert page.errors() == []


def test_numbers_are_rounded_as_their_types_are(page, daemon):
    """NumPy and ml_dtypes agree, on random numbers and on those in the middle of two."""
    page.open(daemon.url, "/docs")
    rng = np.random.default_rng(7)
    values = np.concatenate([rng.standard_normal(200) * 10.0 ** rng.integers(-9, 6, 200),
                             [0, -0.0, 1, 65504, 65519, 65520, 2049, 2051, 6.0e-8, 2.9e-8, 6.1e-5, 1.00390625]])
    values = values.astype(np.float32).astype(float)
    for name, dtype in (("f16", np.float16), ("bf16", ml_dtypes.bfloat16), ("f64", np.float64)):
        with np.errstate(over="ignore"):
            wanted = values.astype(dtype)
        got = bytes(page.run("return [...encode(arguments[0], arguments[1])]", name, values.tolist()))
        assert got == wanted.tobytes(), name
        back = page.run("return decode(arguments[0], encode(arguments[0], arguments[1]).buffer, 1e6).map(String)",
                        name, values.tolist())
        np.testing.assert_array_equal(np.array(back, float), wanted.astype(float))


def test_a_daemon_that_requires_a_token(page, start, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text(f"alice:{TOKEN}\n", encoding="utf-8")
    tokens.chmod(0o600)
    daemon = start("--token-file", str(tokens), "--backend=cpu")
    page.driver.get(f"{daemon.url}/docs")
    page.until(lambda: "requires a token" in page.text("ask-why"), "the question")
    assert not page.find("page").is_displayed()
    page.fill("token", "the-token-of-nobody")
    page.click("show")
    page.until(lambda: "does not know this token" in page.text("ask-why"), "the refusal")
    page.fill("token", TOKEN)
    page.click("show")
    page.until(lambda: page.text("version"), "the document")
    gemm = Operation(page, "gemm")
    gemm.fill([1] * 12)
    assert gemm.send() == "200 OK" and gemm.numbers() == [3, 3, 3, 3]
    assert "$GEMMD_TOKEN" in gemm.text("details pre") and TOKEN not in page.driver.page_source
    assert [entry for entry in page.errors() if "401" not in entry["message"]] == []


def test_operations_are_found(page, daemon):
    page.open(daemon.url, "/docs")
    visible = "return [...document.querySelectorAll('.operation')].filter((each) => !each.hidden).map((each) => each.id)"
    whole = page.run(visible)
    page.driver.find_element(By.TAG_NAME, "body").send_keys("/")
    page.driver.switch_to.active_element.send_keys("put puttensor")
    page.until(lambda: page.run(visible) == ["op-putTensor"], "one operation")
    page.driver.switch_to.active_element.send_keys(" nonsense")
    page.until(lambda: page.find("none").is_displayed(), "no operation")
    page.fill("filter", "")
    page.find("filter").send_keys(" ")
    page.until(lambda: page.run(visible) == whole, "all operations")
    page.run("document.querySelector('#index a[href=\"#op-readyz\"]').click()")
    page.until(lambda: page.run("return document.getElementById('op-readyz').open"), "an operation that is linked")
    assert page.errors() == []


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_nothing_overflows(width, dark, page, daemon):
    """With everything open, and an answer."""
    page.size(width, dark)
    page.open(daemon.url, "/docs")
    gemm = Operation(page, "gemm")
    gemm.set("n", 8)
    assert gemm.send() == "200 OK"
    page.run("for (const each of document.querySelectorAll('.operation')) each.open = true")
    page.until(lambda: page.run("""return [...document.querySelectorAll(".operation")].every(
        (each) => each.querySelector("form") !== null)"""), "all forms")
    page.run("for (const each of document.querySelectorAll('details')) each.open = true")
    assert page.run("return document.documentElement.scrollWidth") <= width
    outside = page.run("""
        return [...document.querySelectorAll(".operation, .operation .inside > *, .try > *, .card")].filter((each) =>
          each.getBoundingClientRect().right > innerWidth || each.scrollWidth > each.clientWidth + 1 &&
          !["auto", "scroll"].includes(getComputedStyle(each).overflowX) && getComputedStyle(each).display !== "inline"
        ).map((each) => `${each.tagName} ${each.className} ${each.textContent.slice(0, 60)}`)""")
    assert outside == []
    assert page.errors() == []
