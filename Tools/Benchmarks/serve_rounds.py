"""The server beside nginx, in turns, for `Tools/benchmark serve`: processor time of each request, slow readers, the viewer.

It needs wrk and nginx with its WebDAV module. All is on loopback and in the page cache.
"""

import argparse
import contextlib
import json
import os
import re
import select
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

SIZES = {"4 KiB": 4 << 10, "1 MiB": 1 << 20}
KEYS = 64
SLOW_PAYLOAD = 8 << 20
TICK = os.sysconf("SC_CLK_TCK")

NGINX = """
worker_processes 2;
daemon off;
error_log {directory}/errors;
pid {directory}/pid;
{user}
events {{ worker_connections 4096; }}
http {{
  access_log off;
  sendfile on;
  keepalive_requests 1000000000;
  client_body_temp_path {directory}/bodies;
  proxy_temp_path {directory}/unused;
  fastcgi_temp_path {directory}/unused;
  uwsgi_temp_path {directory}/unused;
  scgi_temp_path {directory}/unused;
  server {{
    listen 127.0.0.1:{port};
    root {directory}/files;
    location / {{ dav_methods PUT; }}
  }}
}}
"""

# Each request has the next of the keys: KEYS, or as many as are to be stored.
SCRIPT = """
local prefix, keys, count = "{prefix}", {keys}, 0
local body = {body}
local headers = {{}}
request = function()
  count = count + 1
  return wrk.format("{method}", prefix .. "{name}" .. (count % keys), headers, body)
end
"""


class Server:
    """A program that serves, as the sum of its processes."""

    def __init__(self, name, prefix, port, process):
        self.name, self.prefix, self.port, self.process = name, prefix, port, process

    def processes(self):
        path = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        with open(path) as file:
            return [self.process.pid] + [int(pid) for pid in file.read().split()]

    def processor_seconds(self):
        ticks = 0
        for pid in self.processes():
            with open(f"/proc/{pid}/stat") as file:
                # Behind the program's name, which may contain anything.
                fields = file.read().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / TICK

    def memory(self):
        """Bytes that are resident."""
        total = 0
        for pid in self.processes():
            with open(f"/proc/{pid}/status") as file:
                total += int(re.search(r"^VmRSS:\s+(\d+) kB", file.read(), re.M).group(1)) << 10
        return total

    def url(self, name=""):
        return f"http://127.0.0.1:{self.port}{self.prefix}{name}"

    def put(self, name, payload):
        request = urllib.request.Request(self.url(name), payload, method="PUT")
        urllib.request.urlopen(request).read()


@contextlib.contextmanager
def running(command, **options):
    process = subprocess.Popen(command, **options)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(40)
        except subprocess.TimeoutExpired:
            process.kill()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def nginx(directory):
    os.makedirs(f"{directory}/files")
    port = free_port()
    user = "user root;" if os.getuid() == 0 else ""
    with open(f"{directory}/configuration", "w") as file:
        file.write(NGINX.format(directory=directory, port=port, user=user))
    program = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
    with running([program, "-c", f"{directory}/configuration", "-e", f"{directory}/errors"]) as process:
        for _ in range(1000):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.01)
        yield Server("nginx", "/", port, process)


@contextlib.contextmanager
def blobcache(program, directory):
    command = [program, f"{directory}/cache", "--listen", "127.0.0.1:0"]
    with running(command, stdout=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline()
        port = int(re.search(r"http://127\.0\.0\.1:(\d+)/", line).group(1))
        yield Server("blobcache-serve", "/v1/blobs/", port, process)


class Load:
    """What wrk has asked for, and how long it waited."""

    def __init__(self, server, seconds, method, name, connections=16, keys=KEYS, body="nil"):
        script = SCRIPT.format(prefix=server.prefix, method=method, name=name, keys=keys, body=body)
        with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
            file.write(script)
            file.flush()
            before = server.processor_seconds()
            output = subprocess.run(
                ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "-s", file.name, server.url()],
                check=True, capture_output=True, text=True).stdout
            used = server.processor_seconds() - before
        failures = re.search(r"Non-2xx or 3xx responses: (\d+)|Socket errors: .*", output)
        if failures:
            sys.exit(f"{server.name}: {method} {name}: {failures.group(0)}\n{output}")
        self.requests = int(re.search(r"(\d+) requests in", output).group(1))
        number, unit = re.search(r"99%\s+([\d.]+)(us|ms|s|m)\b", output).groups()
        self.late = float(number) * {"us": 1e-3, "ms": 1, "s": 1e3, "m": 6e4}[unit]
        self.cost = used / max(self.requests, 1) * 1e6


class SlowReaders:
    """Connections that ask for a large blob, and take a little of it now and then."""

    def __init__(self, server, name, count):
        self.sockets = []
        request = f"GET {server.prefix}{name} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        for _ in range(count):
            connection = socket.socket()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 10)
            connection.connect(("127.0.0.1", server.port))
            connection.sendall(request)
            self.sockets.append(connection)
        self.is_over = threading.Event()
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        while not self.is_over.wait(1):
            for connection in self.sockets:
                if select.select([connection], [], [], 0)[0]:
                    if not connection.recv(4096):
                        sys.exit("a slow reader was cut off")

    def end(self):
        self.is_over.set()
        self.reader.join()
        for connection in self.sockets:
            connection.close()


def spread(values, form):
    values = sorted(values)
    text = form(statistics.median(values))
    return f"{text} ({form(values[0])} to {form(values[-1])})" if len(values) > 1 else text


def compare(ours, theirs, seconds, rounds, what, *load, **options):
    """Prints the processor time of a request, and the ratio within each round."""
    costs = {ours: [], theirs: []}
    for number in range(rounds):
        for server in (ours, theirs) if number % 2 else (theirs, ours):
            costs[server].append(Load(server, seconds, *load, **options).cost)
    ratios = [a / b for a, b in zip(costs[ours], costs[theirs])]
    print(
        f"{what:12} {spread(costs[ours], '{:.1f}'.format):26} {spread(costs[theirs], '{:.1f}'.format):26} "
        f"{spread(ratios, '{:.2f}'.format)}", flush=True)
    return {"ours": costs[ours], "nginx": costs[theirs], "ratio": statistics.median(ratios)}


def slow_readers(server, seconds, rounds, count):
    server.put("slow", os.urandom(SLOW_PAYLOAD))
    without, beside, memory = [], [], []
    before = server.memory()
    for _ in range(rounds):
        without.append(Load(server, seconds, "GET", "4096-", connections=4).late)
        readers = SlowReaders(server, "slow", count)
        beside.append(Load(server, seconds, "GET", "4096-", connections=4).late)
        memory.append(server.memory())
        readers.end()
    print(f"\n{count} slow readers of 8 MiB: memory {before / 1e6:.0f} MB before, {max(memory) / 1e6:.0f} MB with them")
    print(
        f"99th percentile of other GETs, ms: {spread(without, '{:.2f}'.format)} without, "
        f"{spread(beside, '{:.2f}'.format)} with them")
    return {"memory": max(memory), "without": without, "with": beside}


def first_page(server, records):
    url = f"http://127.0.0.1:{server.port}/ui"
    try:
        urllib.request.urlopen(url).read()
    except OSError:
        return None
    body = '"x"'
    stored = 0
    while stored < records:
        stored += Load(server, 2, "PUT", f"record-{stored}-", keys=1 << 40, body=body).requests
    times = []
    for _ in range(9):
        start = time.monotonic()
        urllib.request.urlopen(url).read()
        times.append((time.monotonic() - start) * 1e3)
    print(f"\nfirst page of the viewer over {stored} records, ms: {spread(times, '{:.1f}'.format)}")
    return {"records": stored, "milliseconds": times}


def main():
    parser = argparse.ArgumentParser(prog="Tools/benchmark serve", description=__doc__)
    parser.add_argument("--program", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=int, default=3, help="of each turn")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each server")
    parser.add_argument("--readers", type=int, default=1000, help="slow readers")
    parser.add_argument("--records", type=int, default=10_000, help="of the viewer's first page")
    parser.add_argument("--only", choices=["get", "put", "slow", "view"], action="append", help="may be given again")
    parser.add_argument("--json", help="a file for the results")
    parser.add_argument("--profile", metavar="FILE", help="have perf record the server during its GETs of 1 MiB")
    options = parser.parse_args()
    parts = options.only or ["get", "put", "slow", "view"]
    results = {"load": os.getloadavg()}
    with tempfile.TemporaryDirectory() as directory, blobcache(options.program, directory) as ours, nginx(directory) as theirs:
        turns = (ours, theirs, options.seconds, options.rounds)
        print(f"load of the machine before: {', '.join(f'{load:.1f}' for load in os.getloadavg())}")
        print(f"processor time of a request, us\n{'':12} {'blobcache-serve':26} {'nginx':26} ratio")
        for size in SIZES.values():
            for number in range(KEYS):
                payload = os.urandom(size)
                for server in (ours, theirs):
                    server.put(f"{size}-{number}", payload)
        if "get" in parts:
            for name, size in SIZES.items():
                results[f"GET {name}"] = compare(*turns, f"GET {name}", "GET", f"{size}-")
        if "put" in parts:
            body = 'string.rep("blobcache-serve!", 256)'
            results["PUT 4 KiB"] = compare(*turns, "PUT 4 KiB", "PUT", "put-", body=body)
        if options.profile:
            with running(["perf", "record", "-q", "-g", "-o", options.profile, "-p", str(ours.process.pid)]):
                Load(ours, options.seconds, "GET", f"{1 << 20}-")
        if "slow" in parts:
            results["slow"] = slow_readers(ours, options.seconds, min(options.rounds, 3), options.readers)
        if "view" in parts:
            results["view"] = first_page(ours, options.records)
        print(f"load of the machine after: {', '.join(f'{load:.1f}' for load in os.getloadavg())}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=2)


main()
