"""The turns of Python's diskcache, for `Tools/benchmark peers`: a request in each line of the standard input, an answer
with its time in each line of the standard output.

Usage: diskcache_rounds.py DIRECTORY PAYLOADS SIZE
"""

import json
import sys
import threading
import time

import diskcache

# Far above what is ever stored: the requests say what is removed.
SIZE_LIMIT = 1 << 40


class Rounds:
    def __init__(self, directory, payloads):
        self.directory = directory
        self.payloads = payloads
        self.cache = self.opened()

    def opened(self):
        return diskcache.Cache(self.directory, size_limit=SIZE_LIMIT)

    def answer(self, request):
        """Microseconds."""
        work = request["work"]
        if work == "close":
            self.cache.close()
            return 0
        if work == "open":
            return sum(self.open_and_load(key) for key in request["keys"])
        threads = request["threads"]
        if threads == 1:
            start, end = self.part(request, 0, 1)
            return end - start
        return self.in_threads(request, threads)

    def in_threads(self, request, count):
        barrier = threading.Barrier(count)
        times = []

        def run(number):
            # diskcache has a connection for each thread, made by its first use.
            self.cache.get("")
            barrier.wait()
            try:
                times.append(self.part(request, number, count))
            except Exception as error:
                times.append(error)

        threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for result in times:
            if isinstance(result, Exception):
                raise result
        return max(end for _, end in times) - min(start for start, _ in times)

    def part(self, request, first, step):
        """The keys that one thread has, and when it began and ended."""
        work, verify = request["work"], request["verify"]
        keys = request["keys"][first::step]
        payloads = [self.payloads[number] for number in request["payloads"][first::step]]
        leaving = request["leaving"][first::step]
        cache = self.cache
        start = now()
        if work in ("store", "replace"):
            for key, payload in zip(keys, payloads):
                cache.set(key, payload)
        elif work == "load":
            for key, payload in zip(keys, payloads):
                found = cache.get(key)
                if found is None or (verify and found != payload):
                    raise ValueError(f"{key} was not loaded")
        elif work == "miss":
            for key in keys:
                if cache.get(key) is not None:
                    raise ValueError(f"{key} was found")
        elif work == "remove":
            for key in keys:
                if not cache.delete(key):
                    raise ValueError(f"{key} was not removed")
        elif work == "churn":
            for key, payload, old in zip(keys, payloads, leaving):
                cache.delete(old)
                cache.set(key, payload)
        else:
            raise ValueError(f"no such work: {work}")
        return start, now()

    def open_and_load(self, key):
        self.cache.close()
        start = now()
        self.cache = self.opened()
        if self.cache.get(key) is None:
            raise ValueError(f"{key} was not loaded")
        return now() - start


def now():
    return time.perf_counter_ns() / 1000


def main():
    directory, path, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with open(path, "rb") as file:
        content = file.read()
    payloads = [content[start : start + size] for start in range(0, len(content), size)] if size else [b""] * 2048
    rounds = Rounds(directory, payloads)
    for line in sys.stdin:
        try:
            answer = {"microseconds": rounds.answer(json.loads(line))}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


main()
