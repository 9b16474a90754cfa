"""Would fail if the dashboard did not show a run as it goes on: in a real browser, without a
reload, through a peer's death and a coordinator's restart, readable on a telephone and on a large
screen in light and dark. The screenshots lie in the build's folder dashboard/."""

import base64
import http.server
import json
import os
import re
import shutil
import sys
import tempfile
import threading
import time
import unittest

from cluster import BIN, Cluster, free_port, wait_for

SKIP = 77
CHROMIUM = shutil.which("chromium")
DRIVER = shutil.which("chromedriver")
try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:
    webdriver = None

WIDTHS = (390, 1600)
SCHEMES = ("light", "dark")

# What is wrong with the page as it is laid out now, as a list of sentences.
FAULTS_OF_LAYOUT = """
const faults = [];
const width = innerWidth;
if (document.documentElement.scrollWidth > width) {
  faults.push(`the page is ${document.documentElement.scrollWidth} wide, not ${width}`);
}
function hidden(element) {
  for (let at = element; at; at = at.parentElement) {
    const style = getComputedStyle(at);
    if (style.display === "none" || style.visibility === "hidden" ||
        style.clipPath.startsWith("inset(50%") || at.classList.contains("skip")) return true;
  }
  return false;
}
function numbers(colour) { return colour.match(/[\\d.]+/g).map(Number); }
function backgroundOf(element) {
  for (let at = element; at; at = at.parentElement) {
    const rgb = numbers(getComputedStyle(at).backgroundColor);
    if (rgb.length === 3 || rgb[3] > 0.99) return rgb;
  }
  return [255, 255, 255];
}
function luminance(rgb) {
  const [r, g, b] = rgb.slice(0, 3).map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function contrast(a, b) {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}
const texts = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode;
  const text = node.textContent.trim();
  const element = node.parentElement;
  if (!text || ["SCRIPT", "STYLE", "NOSCRIPT"].includes(element.tagName) || hidden(element)) {
    continue;
  }
  const style = getComputedStyle(element);
  if (parseFloat(style.fontSize) < 12) faults.push(`'${text}' is ${style.fontSize} high`);
  const seen = contrast(numbers(style.color), backgroundOf(element));
  if (seen < 4.5) faults.push(`'${text}' has a contrast of ${seen.toFixed(1)}`);
  const list = element.closest(".events");
  const frame = list ? list.getBoundingClientRect() : null;
  const range = document.createRange();
  range.selectNodeContents(node);
  for (const box of range.getClientRects()) {
    if (frame && (box.top < frame.top || box.bottom > frame.bottom)) continue;
    if (box.right > width + 1 || box.left < -1) faults.push(`'${text}' leaves the page`);
    texts.push({text, box});
  }
}
for (let i = 0; i < texts.length; ++i) {
  for (let j = i + 1; j < texts.length; ++j) {
    const [a, b] = [texts[i].box, texts[j].box];
    const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (across > 3 && down > 4) faults.push(`'${texts[i].text}' lies on '${texts[j].text}'`);
  }
}
return faults;
"""

# The page is told of a slow disk of peer-1, as a busy machine would have it, until endTrouble().
PEER_1_HAS_A_SLOW_DISK = """
const parse = JSON.parse;
JSON.parse = (text) => {
  const value = parse(text);
  for (const peer of (value && value.peers) || []) {
    if (peer.member.peer === "peer-1") peer.why = "its disk is slow: an fsync took 1.2 s";
  }
  return value;
};
window.endTrouble = () => { JSON.parse = parse; };
"""


def missing():
    """What this test lacks; empty: nothing."""
    lacks = {"chromium": CHROMIUM, "chromedriver (package chromium-driver)": DRIVER,
             "Selenium (package python3-selenium)": webdriver}
    return ", ".join(name for name, found in lacks.items() if not found)


class Browser:
    """Chromium without a window."""

    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="atoll-e2e-browser-")
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        flags = ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                 "--no-first-run", "--disable-background-networking", "--no-proxy-server",
                 f"--user-data-dir={self.profile}"]
        if os.geteuid() == 0:
            flags.append("--no-sandbox")  # it does not run as root with one
        for flag in flags:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(service=Service(DRIVER), options=options)

    def close(self):
        self.driver.quit()
        shutil.rmtree(self.profile, ignore_errors=True)

    def text(self, element_id):
        return self.driver.execute_script(
            "return document.getElementById(arguments[0]).textContent", element_id)

    def state(self):
        return self.driver.execute_script("return document.body.dataset.state")

    def round(self):
        text = self.text("round").replace(",", "")
        return int(text) if text.isdigit() else -1

    def row(self, peer):
        return self.driver.execute_script(
            "const row = document.querySelector(`tr[data-key='${arguments[0]}']`);"
            "return row ? row.textContent : ''", peer)

    def show(self, scheme, width, height=1000):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": scheme}]})
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
        wait_for(f"a page {width} wide", lambda: self.driver.execute_script(
            "return innerWidth === arguments[0] && "
            "matchMedia('(prefers-color-scheme: ' + arguments[1] + ')').matches", width, scheme))

    def shoot(self, path):
        height = self.driver.execute_script("return document.documentElement.scrollHeight")
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {
            "captureBeyondViewport": True,
            "clip": {"x": 0, "y": 0, "width": self.driver.execute_script("return innerWidth"),
                     "height": height, "scale": 1}})
        with open(path, "wb") as out:
            out.write(base64.b64decode(shot["data"]))


class OtherRun:
    """A coordinator of another run, as far as an open page asks it, at an address that is free."""

    STATUS = {"run_id": "<b>other</b>", "version": 0, "rounds": [], "evaluations": [],
              "events": ["of another run"]}

    def __init__(self, address):
        status = json.dumps(self.STATUS)

        class Answer(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                self.wfile.write(f"retry: 1000\n\nid: 1\nevent: run\ndata: {status}\n\n".encode())
                # As long as the reader is there, a sign of life a second.
                while not over.wait(1):
                    self.wfile.write(b"event: beat\ndata: 60\n\n")

            def log_message(self, *_):
                pass

        over = self.over = threading.Event()
        host, port = address.removeprefix("http://").rstrip("/").split(":")
        self.server = wait_for("the port", lambda: self.listen(host, int(port), Answer))
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @staticmethod
    def listen(host, port, answer):
        try:
            return http.server.ThreadingHTTPServer((host, port), answer)
        except OSError:
            return None  # the one before has not ended yet

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.over.set()
        self.server.shutdown()
        self.server.server_close()


class DashboardTest(unittest.TestCase):
    """One run and one browser; the methods follow each other, in the order of their names."""

    @classmethod
    def setUpClass(cls):
        cls.shots = os.path.join(os.path.dirname(BIN), "dashboard")
        os.makedirs(cls.shots, exist_ok=True)
        # A port of its own: the usual one is whoever's asks for it while the coordinator is dead.
        cls.cluster = Cluster(rounds=4000, peers=3, quorum=2, steps=6,
                              extra=f'\n[http]\nlisten = "127.0.0.1:{free_port()}"\n',
                              stub={"step_time": "50ms", "failure_timeout": "3s"})
        cls.addClassCleanup(cls.cluster.close)
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)
        cls.address = wait_for("the dashboard's address", cls.told_address)
        cls.browser.driver.get(cls.address)
        cls.browser.driver.execute_script("window.marker = 'loaded once'")

    @classmethod
    def told_address(cls):
        for line in cls.cluster.text().splitlines():
            if line.startswith("dashboard: "):
                return line.split()[1]
        return None

    def assert_not_reloaded(self):
        self.assertEqual("loaded once", self.browser.driver.execute_script("return window.marker"))

    def check_layout(self, name):
        for scheme in SCHEMES:
            for width in WIDTHS:
                with self.subTest(page=name, scheme=scheme, width=width):
                    self.browser.show(scheme, width)
                    self.browser.driver.execute_async_script(
                        "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
                    self.browser.shoot(
                        os.path.join(self.shots, f"{name}-{scheme}-{width}.png"))
                    self.assertEqual([], self.browser.driver.execute_script(FAULTS_OF_LAYOUT))

    def test_1_shows_a_run_as_it_goes_on(self):
        browser = self.browser
        with open(os.path.join(self.cluster.process_of("coordinator")["dir"], "http"),
                  encoding="utf-8") as file:
            self.assertEqual(self.address, file.read().strip())
        first = wait_for("a round on the page", lambda: max(0, browser.round()))
        wait_for("the next rounds", lambda: browser.round() > first + 2)
        wait_for("three live peers", lambda: browser.text("live") == "3 of 3")
        self.assertEqual("live", browser.state())
        self.assertIn(self.cluster.status()["run_id"], browser.text("run-id"))
        # A trouble is shown beside the step, not instead of it.
        browser.driver.execute_script(PEER_1_HAS_A_SLOW_DISK)
        wait_for("a step and a trouble", lambda: re.search(
            "training.*step [0-9]+ of [0-9]+; its disk is slow", browser.row("peer-1")))
        browser.driver.execute_script("endTrouble()")
        self.assertTrue(browser.driver.execute_script(
            "return document.querySelector('#time-chart canvas') !== null"))
        self.assert_not_reloaded()

    def test_2_is_readable(self):
        wait_for("some rounds", lambda: self.browser.round() >= 12)
        self.check_layout("run")

    def test_3_is_used_by_keyboard(self):
        driver = self.browser.driver
        radio = driver.find_element(By.CSS_SELECTOR, "#axis input[value=round]")
        radio.send_keys(Keys.ARROW_RIGHT)
        self.assertTrue(driver.find_element(By.CSS_SELECTOR, "#axis input[value=tokens]")
                        .is_selected())
        wait_for("the loss by tokens", lambda: "tokens" in driver.find_element(
            By.ID, "loss-chart").get_attribute("aria-label"))
        driver.find_element(By.CSS_SELECTOR, "th[data-sort=peer] button").send_keys(Keys.ENTER)
        driver.find_element(By.CSS_SELECTOR, "th[data-sort=peer] button").send_keys(Keys.ENTER)
        self.assertEqual("peer-3", driver.find_element(By.CSS_SELECTOR, "#peers a").text)
        driver.find_element(By.CSS_SELECTOR, "tr[data-key=peer-1] a").send_keys(Keys.ENTER)
        self.assertTrue(driver.current_url.endswith("/peer/peer-1"))
        self.assertEqual("peer-1", self.browser.text("peer-title"))
        self.check_layout("peer")
        driver.back()
        wait_for("the run again", lambda: self.browser.row("peer-1"))
        self.assert_not_reloaded()

    def test_4_shows_a_killed_peer_at_once(self):
        killed = time.monotonic()
        self.cluster.kill("peer-2")
        wait_for("peer-2 is shown as gone",
                 lambda: any(word in self.browser.row("peer-2") for word in ("suspect", "dead")),
                 seconds=10)
        self.assertLess(time.monotonic() - killed, 3)
        wait_for("two live peers", lambda: self.browser.text("live") == "2 of 3")
        wait_for("peer-2 among the events", lambda: "peer-2" in self.browser.text("events"))

    def test_5_goes_on_through_a_restart_of_the_coordinator(self):
        browser = self.browser
        before = browser.round()
        self.cluster.kill("coordinator")
        wait_for("the page says that the coordinator is gone",
                 lambda: browser.state() == "gone" and "does not answer" in browser.text("alert"),
                 seconds=10)
        self.assertGreaterEqual(browser.round(), before)
        self.check_layout("gone")
        self.cluster.restart("coordinator")
        wait_for("the page is live again", lambda: browser.state() == "live")
        self.assertEqual("", browser.text("alert"))
        wait_for("rounds go on", lambda: browser.round() > before + 1)
        self.assert_not_reloaded()

    def test_6_does_not_take_another_run_for_this_one(self):
        browser = self.browser
        run, before = browser.text("run-id"), browser.round()
        self.cluster.kill("coordinator")
        with OtherRun(self.address):
            wait_for("the page says that another run answers", lambda: browser.text("alert") ==
                     "Another run answers at this address: <b>other</b>. Reload to see it.")
            self.assertEqual("other", browser.state())
            self.assertEqual(run, browser.text("run-id"))
            self.assertGreaterEqual(browser.round(), before)
            self.assertIn("peer-1", browser.row("peer-1"))
        self.cluster.restart("coordinator")
        wait_for("the page is live again", lambda: browser.state() == "live")
        self.assertEqual("", browser.text("alert"))
        wait_for("rounds go on", lambda: browser.round() > before + 1)
        self.assert_not_reloaded()

    def test_7_nothing_was_refused(self):
        for entry in self.browser.driver.get_log("browser"):
            # While the coordinator was away its events could not be had.
            if entry["source"] == "network" and "/api/events" in entry["message"]:
                continue
            self.fail(entry["message"])


if __name__ == "__main__":
    if missing():
        print(f"skipped: there is no {missing()}")
        sys.exit(SKIP)
    unittest.main(verbosity=2)
