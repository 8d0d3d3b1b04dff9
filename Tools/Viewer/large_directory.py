"""How long pages of the viewer take over a directory of many records.

    python3 large_directory.py BLOBCACHE-SERVE [COUNT] [DIR]

Fills a directory with records of 128 bytes, a million if no count is given, unless DIR is one that an earlier run has filled and
kept. Each page is asked for nine times; printed are the median and the longest time, in milliseconds.
"""

import os
import pathlib
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
import zlib

DIGITS = "0123456789abcdefghijklmnopqrstuv"


def digest(name):
    """FNV-1a, 64 bits."""
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = ((value ^ byte) * 0x100000001B3) & (1 << 64) - 1
    return value


def fill(root, count):
    """Writes records as Spec/RecordFormat.md has them, in the layout `spread`."""
    now = int(time.time())
    for first in DIGITS:
        for second in DIGITS:
            (root / (first + second)).mkdir(mode=0o700, exist_ok=True)
    beginning = os.urandom(120)
    for number in range(count):
        name = f"record-{number:07d}"
        place = digest(name)
        payload = beginning + struct.pack("<Q", number)
        locks, age = int(number % 50_000 == 7), number * 37 % (20 * 86_400)
        header = struct.pack(
            "<4sIIIQQQQIII", b"SPTF", 64, locks, 0, 30 * 86_400, now - age, len(payload), place, zlib.crc32(payload), 0, 6)
        header += struct.pack("<I", zlib.crc32(header))
        path = f"{root}/{DIGITS[place >> 5 & 31]}{DIGITS[place & 31]}/{name}"
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.write(file, header + payload)
        os.close(file)


class Server:
    def __init__(self, program, root):
        self.process = subprocess.Popen(
            [program, str(root), "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
        self.address = re.search(r" at (\S+)$", self.process.stdout.readline()).group(1)

    def get(self, page, form=None):
        data = urllib.parse.urlencode(form).encode() if form else None
        begin = time.monotonic()
        with urllib.request.urlopen(self.address + "ui/" + page, data=data) as answer:
            text = answer.read().decode()
        return time.monotonic() - begin, text


def measure(server, page):
    times = sorted(server.get(page)[0] * 1000 for _ in range(9))
    print(f"/ui/{page:24} {statistics.median(times):7.1f} {times[-1]:7.1f}", flush=True)


def main():
    program = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    outside = pathlib.Path(sys.argv[3] if len(sys.argv) > 3 else tempfile.mkdtemp(prefix="blobcache-large-"))
    root = outside / "cache"
    server = Server(program, root)
    try:
        if not (root / "00").is_dir():
            # The first blob makes the directory, with its settings.
            request = urllib.request.Request(server.address + "v1/blobs/seed", data=b"x", method="PUT")
            urllib.request.urlopen(request).close()
            fill(root, count)
        token = re.search(r'name="token" value="(\w+)"', server.get("collections")[1]).group(1)
        print(f"collection, which counts the records: {server.get('collect', {'run': 'real', 'token': token})[0]:.1f} s")
        for page in ("", "records", "records?at=50", "records?state=locked", "records?prefix=record-05",
                     "record?key=record-0500000", "collections"):
            measure(server, page)
        begin = time.monotonic()
        while "<progress" in server.get("records?sort=age")[1]:
            time.sleep(0.5)
        print(f"a walk over all records, for an order: {time.monotonic() - begin:.1f} s")
        measure(server, "records?sort=age")
        status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
        most = int(re.search(r"VmHWM:\s+(\d+)", status).group(1))
        print(f"memory at the most: {most / 1024:.0f} MiB")
    finally:
        server.process.terminate()
        server.process.wait()
        if len(sys.argv) <= 3:
            shutil.rmtree(outside)


main()
