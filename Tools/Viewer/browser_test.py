"""The viewer in a real browser, beside a directory that this test fills.

    python3 browser_test.py BLOBCACHE-SERVE [--screenshots DIR]

Each function whose name begins with `test` is a test. What is asked of a page is asked until it is so, for a minute at most.
"""

import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
import zlib

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.chrome.service import Service

HOSTILE_KEYS = [
    "<script>document.title='run'</script>",
    '"><img src=x onerror="document.title=\'run\'">',
    "' autofocus onfocus='document.title=1",
    "..",
    "a/../b",
    "\u202egnp.exe",
    "</title></td></table>",
]
PAGE = "<!DOCTYPE html><script>document.title='run'</script><h1>a page</h1>"


def picture(width, height):
    """A PNG with a gradient."""
    rows = b"".join(
        b"\0" + b"".join(bytes((x * 255 // width, y * 255 // height, 160)) for x in range(width)) for y in range(height)
    )

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def sound(seconds):
    """A WAV file of silence."""
    count = 8000 * seconds
    return (
        b"RIFF" + struct.pack("<I", 36 + count) + b"WAVEfmt "
        + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 8000, 1, 8) + b"data" + struct.pack("<I", count) + b"\x80" * count
    )


class Server:
    """The program on a directory of its own, as `blobcache view` starts it."""

    def __init__(self, program, *options):
        self.outside = pathlib.Path(tempfile.mkdtemp(prefix="blobcache-browser-"))
        self.root = self.outside / "cache"
        environment = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
        self.process = subprocess.Popen(
            [program, str(self.root), "--view", *options], stdout=subprocess.PIPE, text=True, env=environment)
        line = self.process.stdout.readline()
        self.entrance = re.fullmatch(r"viewing .* at (http://\S+)\n", line).group(1)
        self.address = self.entrance.split("ui/")[0] + "ui/"

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout=60)
        shutil.rmtree(self.outside)
        assert status == 0, f"the server has ended with {status}"

    def file_of(self, key):
        """The file of a key that is its own escape, and whose record is too large for a pack."""
        return next(path for path in self.root.rglob(key) if path.is_file())

    def damage(self, payload):
        """Changes two bytes of a payload where it lies, in a pack or in a file."""
        for path in self.root.rglob("*"):
            place = path.read_bytes().find(payload) if path.is_file() else -1
            if place >= 0:
                with open(path, "r+b") as file:
                    file.seek(place + 6)
                    file.write(b"XX")
                return
        raise AssertionError("the payload is nowhere")


class Browser:
    """Chromium, and what pages say in it."""

    def __init__(self):
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for option in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage"):
            options.add_argument(option)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)
        self.size(1280, 900)

    def size(self, width, height):
        # The window of a headless browser has no frame, but a least width; the screen of a small device is told apart.
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        return wait_for(lambda: next(iter(self.all(selector)), None), selector)

    def text(self, selector="main"):
        return self.one(selector).text

    def open(self, address):
        self.driver.get(address)

    def errors(self):
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] != "INFO"]


def wait_for(find, what):
    deadline = time.monotonic() + 60
    while True:
        try:
            found = find()
            if found:
                return found
        except Exception as error:  # A page that was left while it was asked.
            if time.monotonic() > deadline:
                raise
            last = error
        assert time.monotonic() < deadline, f"never seen: {what}"
        time.sleep(0.05)


class Test:
    def __init__(self, program, browser, screenshots):
        self.program, self.browser, self.screenshots = program, browser, screenshots
        self.server = Server(program)
        browser.open(self.server.entrance)
        self.cookie = browser.driver.get_cookies()[0]

    def request(self, method, path, body=None, fields=None):
        address = self.server.address.removesuffix("ui/") + path
        request = urllib.request.Request(address, data=body, method=method, headers=fields or {})
        if body is not None and not request.has_header("Content-type"):
            request.add_header("Content-Type", "application/octet-stream")
        request.add_header("Cookie", f"{self.cookie['name']}={self.cookie['value']}")
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read()

    def put(self, key, payload, **fields):
        names = {name.replace("_", "-"): value for name, value in fields.items()}
        self.request("PUT", "v1/blobs/" + urllib.parse.quote(key, safe=""), payload, names)

    def fill(self):
        names = ["cover", "track", "page", "thumbnail", "index"]
        for number in range(240):
            size = (number * 7919) % 60000 + 200 if number % 9 else (number * 7919) % 900000
            ttl = ["0", "600", "86400", "never"][number % 4]
            self.put(f"album/{number // 5}/{names[number % 5]}", os.urandom(size), X_BlobCache_TTL=ttl)
        self.put("pictures/gradient.png", picture(640, 400), X_BlobCache_TTL="6h")
        self.put("sounds/silence.wav", sound(2), Content_Type="audio/wav", X_BlobCache_Locks="one")
        self.put("notes.txt", "Text, over\nsome lines.\n".encode() * 20, Content_Type="text/plain; charset=utf-8")
        self.put("page.html", PAGE.encode(), Content_Type="text/html")
        self.put("damaged", b"this was right once")
        for key in HOSTILE_KEYS:
            self.put(key, b"the payload of a key")
        for number in range(3):
            self.request("POST", f"v1/blobs/album%2F{number}%2Fcover?lock")
        for number in range(60):
            self.request("GET", f"v1/blobs/album%2F{number % 20}%2Fcover")
        for number in range(9):
            try:
                self.request("GET", f"v1/blobs/none{number}")
            except urllib.error.HTTPError as error:
                assert error.code == 404
        self.server.damage(b"this was right once")

    def make_history(self):
        """Some collections with something to do, for the charts."""
        for turn in range(6):
            for number in range(20 + turn * 7 % 15):
                self.put(f"short/{number}", b"x" * 500, X_BlobCache_TTL="1")
            for number in range(40 + turn * 31 % 50):
                try:
                    self.request("GET", f"v1/blobs/album%2F{number % (30 + turn)}%2Fcover" + ("x" if number % 5 == 0 else ""))
                except urllib.error.HTTPError:
                    pass
            time.sleep(2.1)
            self.browser.open(self.server.address + "collections")
            self.browser.one("button[value=dry]").click()
            self.browser.one("button[value=real]").click()
            wait_for(lambda: "Collected" in self.browser.text("h1"), "the collection")

    # Each function leaves the directory as the next one expects it.

    def test_an_empty_directory_says_so(self):
        self.browser.open(self.server.address + "records")
        assert "no records" in self.browser.text()
        self.browser.open(self.server.address + "collections")
        assert "none yet" in self.browser.text()

    def test_the_entrance_opens_once(self):
        self.browser.driver.delete_all_cookies()
        self.browser.open(self.server.entrance)
        assert "first" in self.browser.text()
        assert "403" in self.browser.driver.title
        assert len(self.browser.errors()) == 1, "the refusal is told, and no more"
        self.browser.driver.add_cookie(self.cookie)

    def test_the_table_goes_on_as_it_is_scrolled(self):
        self.fill()
        self.browser.open(self.server.address + "records")
        def rows():
            self.browser.driver.execute_script("scrollTo(0, document.body.scrollHeight)")
            return len(self.browser.all("td.key a"))
        wait_for(lambda: rows() == 240 + 5 + len(HOSTILE_KEYS), "all records")
        assert not self.browser.all("a[rel=next]")
        names = [link.text for link in self.browser.all("td.key a")]
        assert len(set(names)) == len(names), "a record was met twice"

    def test_hostile_keys_stay_text(self):
        self.browser.open(self.server.address + "records?sort=-size")
        for key in HOSTILE_KEYS:
            address = self.server.address + "record?key=" + urllib.parse.quote(key, safe="")
            self.browser.open(address)
            shown = key.replace("\u202e", "\\u{202E}")
            assert shown in self.browser.text("h1"), self.browser.text("h1")
            assert self.browser.driver.title.endswith("· BlobCache"), self.browser.driver.title
            assert "the payload of a key" in self.browser.text("pre.preview")
        self.browser.open(self.server.address + "record?key=page.html")
        assert PAGE in self.browser.text("pre.preview")
        assert self.browser.driver.title == "page.html · BlobCache"

    def test_the_filter_and_the_order_choose(self):
        self.browser.open(self.server.address + "records")
        field = self.browser.one("input[type=search]")
        self.browser.one("body").send_keys("/")
        assert self.browser.driver.switch_to.active_element == field
        field.send_keys("pictures/", Keys.ENTER)
        wait_for(lambda: [link.text for link in self.browser.all("td.key a")] == ["pictures/gradient.png"], "the filtered table")
        self.browser.open(self.server.address + "records")
        self.browser.one("select[name=state] option[value=locked]").click()
        wait_for(lambda: "state=locked" in self.browser.driver.current_url, "the locked records")
        wait_for(lambda: len(self.browser.all("td.key a")) == 4, "four locked records")
        self.browser.open(self.server.address + "records?sort=size")
        wait_for(lambda: len(self.browser.all("td.key a")) == 200 and not self.browser.all("progress"), "the largest")

    def test_keys_move_from_record_to_record(self):
        self.browser.open(self.server.address + "records")
        links = self.browser.all("td.key a")
        body = self.browser.one("body")
        body.send_keys("jj")
        assert self.browser.driver.switch_to.active_element == links[1]
        self.browser.driver.switch_to.active_element.send_keys("k")
        assert self.browser.driver.switch_to.active_element == links[0]
        name = links[0].text
        links[0].send_keys(Keys.ENTER)
        wait_for(lambda: name in self.browser.text("h1"), "the page of the record")
        self.browser.one("body").send_keys("gc")
        wait_for(lambda: "Collections" in self.browser.text("h1"), "the collections")

    def test_payloads_are_shown(self):
        self.browser.open(self.server.address + "record?key=" + urllib.parse.quote("pictures/gradient.png", safe=""))
        image = self.browser.one("img.preview")
        wait_for(lambda: image.get_property("naturalWidth") == 640, "the image")
        self.browser.open(self.server.address + "record?key=" + urllib.parse.quote("sounds/silence.wav", safe=""))
        player = self.browser.one("audio.preview")
        wait_for(lambda: player.get_property("duration") == 2, "the sound")
        self.browser.open(self.server.address + "record?key=notes.txt")
        assert "Text, over\nsome lines." in self.browser.text("pre.preview")

    def test_a_damaged_record_has_its_verdict(self):
        self.browser.open(self.server.address + "record?key=damaged")
        assert "payloadChecksumMismatch" in self.browser.text(".failure")
        assert len(self.browser.all("td.mark")) == 12
        assert len(self.browser.all("table.bytes td")) == 64
        assert len(self.browser.all(".verdict.broken")) == 1
        self.browser.open(self.server.address + "collections")
        self.browser.one("form[action=verify] button").click()
        wait_for(lambda: "1 damaged." in self.browser.text("#verification"), "the verification")

    def test_actions_are_done(self):
        address = self.server.address + "record?key=notes.txt"
        self.browser.open(address)
        self.browser.one("button[value=lock]").click()
        wait_for(lambda: "locked" in self.browser.text(".notice"), "that it was locked")
        assert self.browser.text("h1 .state") == "locked"
        self.browser.one("button[value=unlock]").click()
        wait_for(lambda: "taken off" in self.browser.text(".notice"), "that it was unlocked")
        self.browser.one("button[value=touch]").click()
        wait_for(lambda: "touched" in self.browser.text(".notice"), "that it was touched")
        assert not self.browser.all("details[open]"), "it is removed by two steps"
        self.browser.one("summary").click()
        self.browser.one("button[value=remove]").click()
        wait_for(lambda: "removed" in self.browser.text(".notice"), "that it was removed")
        self.browser.open(address)
        assert "no such record" in self.browser.text(".failure")
        assert len(self.browser.errors()) == 1, "the page that is not there is told, and no more"

    def test_a_dry_run_comes_before_a_collection(self):
        self.put("short", b"x" * 9000, X_BlobCache_TTL="1")
        time.sleep(2.1)  # It expires behind the second.
        self.browser.open(self.server.address + "collections")
        self.browser.one("button[value=dry]").click()
        wait_for(lambda: "would do" in self.browser.text("h1"), "the dry run")
        assert self.server.file_of("short")
        self.browser.one("button[value=real]").click()
        wait_for(lambda: "Collected" in self.browser.text("h1"), "the collection")
        assert not list(self.server.root.rglob("short"))

    def test_numbers_stay_new(self):
        self.browser.open(self.server.address)
        before = self.browser.text("#tiles .tile:first-child .value")
        self.put("another", b"x")
        wait_for(lambda: self.browser.text("#tiles .tile:first-child .value") not in ("", before), "the new number")
        self.request("DELETE", "v1/blobs/another")

    def test_the_night_is_chosen(self):
        self.browser.open(self.server.address)
        ground = "return getComputedStyle(document.body).backgroundColor"
        day = self.browser.driver.execute_script(ground)
        self.browser.one("#theme").click()
        wait_for(lambda: self.browser.driver.execute_script(ground) != day, "the other colours")
        self.browser.open(self.server.address + "records")
        assert self.browser.driver.execute_script(ground) != day, "the choice was not kept"
        self.browser.one("#theme").click()

    def test_no_page_is_wider_than_its_window(self):
        pages = ["", "records", "records?state=locked", "collections", "record?key=damaged",
                 "record?key=" + urllib.parse.quote("pictures/gradient.png", safe="")]
        if self.screenshots:
            self.make_history()
        for width in (1280, 800, 380):
            self.browser.size(width, 860)
            for page in pages:
                self.browser.open(self.server.address + page)
                wide = self.browser.driver.execute_script("return document.documentElement.scrollWidth")
                assert wide <= width, f"{page} is {wide} wide at {width}"
                if self.screenshots:
                    if page == "":
                        time.sleep(4.5)  # Two more looks, for the curves.
                    name = re.sub(r"\W+", "-", page.split("%")[0]) or "overview"
                    self.browser.driver.save_screenshot(str(self.screenshots / f"{name}-{width}.png"))
        self.browser.size(1280, 900)


def main():
    program = sys.argv[1]
    screenshots = pathlib.Path(sys.argv[3]).absolute() if sys.argv[2:3] == ["--screenshots"] else None
    if screenshots:
        screenshots.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    browser = Browser()
    test = Test(program, browser, screenshots)
    try:
        for name, function in vars(Test).items():
            if not name.startswith("test"):
                continue
            start = time.monotonic()
            try:
                function(test)
                errors = browser.errors()
                assert errors == [], f"the browser's log has {errors}"
            except Exception:
                place = pathlib.Path(tempfile.gettempdir()) / f"{name}.png"
                browser.driver.save_screenshot(str(place))
                print(f"FAILED: {name}, at {browser.driver.current_url}; {place} shows the page", flush=True)
                raise
            print(f"{name}: {time.monotonic() - start:.1f} s", flush=True)
    finally:
        browser.driver.quit()
        test.server.end()
    print(f"The viewer in a browser: passed in {time.monotonic() - begin:.0f} s")


main()
