"""Debian's Chromium, without a window, driven by Selenium."""

import contextlib
import shutil

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from daemon import PATIENCE_S, Daemon

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
# Ubuntu has Chromium as a snap only, which does not run in a container.
needs_chromium = pytest.mark.skipif(CHROMIUM is None or DRIVER is None, reason="there is no Chromium")


class Page:
    """A window of the browser."""

    def __init__(self, driver):
        self.driver = driver

    def open(self, url, path="/"):
        """A page whose element `version` is filled in when the daemon has answered."""
        self.driver.get(url + path)
        self.until(lambda: self.text("version"), "the version")

    def size(self, width, dark=False):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})

    def find(self, name):
        return self.driver.find_element(By.ID, name)

    def text(self, name):
        return self.driver.execute_script(
            "return document.getElementById(arguments[0]).textContent", name)

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def click(self, name):
        self.run("document.getElementById(arguments[0]).scrollIntoView({block: 'center'})", name)
        self.find(name).click()

    def fill(self, name, value):
        self.find(name).clear()
        self.find(name).send_keys(str(value))

    def until(self, condition, what):
        return WebDriverWait(self.driver, PATIENCE_S, 0.05).until(lambda _: condition(), what)

    def errors(self):
        return [entry for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]


@contextlib.contextmanager
def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage",
                     "window-size=1280,900"):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with webdriver.Chrome(options=options, service=Service(DRIVER)) as one:
        one.set_page_load_timeout(PATIENCE_S)
        yield one


# Fixtures, which a test file imports.

@pytest.fixture(scope="module")
def driver():
    with browser() as one:
        yield one


@pytest.fixture
def page(driver):
    one = Page(driver)
    one.size(1280)
    one.driver.get_log("browser")
    yield one
    driver.get("about:blank")  # streams end before their daemon is stopped


@pytest.fixture(scope="module")
def daemon(gemmd):
    one = Daemon(gemmd, "--backend=cpu")
    try:
        yield one.wait_until_listening().wait_until_ready()
        one.stop()
    finally:
        one.close()
