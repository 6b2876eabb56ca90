#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Starts a key-value server on a free loopback port, drives it with redis-benchmark, plain and
pipelined, shows a live line, and ends with a short table. scripts/demo builds the server and calls
this."""

import argparse
import re
import select
import signal
import socket
import subprocess
import sys
import time

TESTS = ("set", "get", "incr")
MODES = (("plain", 1), ("pipelined", 16))
CONNECTIONS = 50

# How long anything may take that should take no time, and a measurement that should take seconds.
PATIENCE = 30
LONGEST_RUN = 300

LIVE = re.compile(rb"^\s*(\w+): rps=([\d.]+) \(overall: ([\d.]+)\) avg_msec=([\d.]+) \(overall")
REQUESTS = re.compile(r"^\s*(\d+) requests completed in ([\d.]+) seconds", re.MULTILINE)
LATENCIES = re.compile(r"latency summary \(msec\):\s*\n([ a-z\d]+)\n([ \d.]+)")


class Failure(Exception):
    """Ends the demo; the text says what went wrong."""


class LiveLine:
    """One line that is written over on a terminal, and one line a second elsewhere."""

    def __init__(self, stream):
        self.stream = stream
        self.terminal = stream.isatty()
        self.last = 0.0

    def show(self, text):
        now = time.monotonic()
        if self.terminal:
            self.stream.write(f"\r\x1b[K{text}")
        elif now - self.last >= 1.0:
            self.stream.write(f"{text}\n")
            self.last = now
        self.stream.flush()

    def clear(self):
        if self.terminal:
            self.stream.write("\r\x1b[K")
            self.stream.flush()


class Server:
    """The server process."""

    def __init__(self, program):
        self.process = subprocess.Popen([program, "--port", "0"], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE)
        try:
            self.find_port()
        except BaseException:
            self.kill()
            raise

    def find_port(self):
        line = self.read_line()
        match = re.fullmatch(r"listening on ([\d.]+):(\d+)\n", line)
        if not match:
            raise Failure(f"the server did not start; it said {line!r}")
        self.host, self.port = match[1], int(match[2])

    def read_line(self):
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        return self.process.stdout.readline().decode() if ready else ""

    def information(self):
        """INFO as a dictionary."""
        with socket.create_connection((self.host, self.port), timeout=PATIENCE) as client:
            client.sendall(b"INFO\r\nQUIT\r\n")
            text = b""
            while data := client.recv(65536):
                text += data
        lines = text.decode().split("\r\n")
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise Failure("the server did not end after SIGTERM") from None
        if self.process.returncode != 0:
            raise Failure(f"the server ended with status {self.process.returncode}")

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def run_benchmark(server, test, pipeline, requests, show):
    """Runs one test; calls show(rate, mean) for each progress line; returns the figures at its
    end: requests, seconds, and the latencies by name, in milliseconds."""
    process = subprocess.Popen(
        ["redis-benchmark", "-h", server.host, "-p", str(server.port), "-t", test,
         "-n", str(requests), "-P", str(pipeline), "-c", str(CONNECTIONS), "-r", "100000",
         "-d", "64"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        output = read_progress(process, show)
    finally:
        process.kill()
        status = process.wait()
    requests_line, table = REQUESTS.search(output), LATENCIES.search(output)
    if status != 0 or not requests_line or not table:
        raise Failure(f"redis-benchmark failed with status {status}:\n{output[-2000:]}")
    latencies = dict(zip(table[1].split(), map(float, table[2].split())))
    return int(requests_line[1]), float(requests_line[2]), latencies


def read_progress(process, show):
    """Reads until the process ends; progress lines end with a carriage return."""
    deadline = time.monotonic() + LONGEST_RUN
    output, rest = b"", b""
    while True:
        ready, _, _ = select.select([process.stdout], [], [], max(0, deadline - time.monotonic()))
        if not ready:
            raise Failure(f"redis-benchmark did not end within {LONGEST_RUN} s")
        data = process.stdout.read1(65536)
        if not data:
            process.wait(PATIENCE)
            return output.decode("utf-8", "replace")
        output += data
        *lines, rest = re.split(rb"[\r\n]", rest + data)
        for line in lines:
            # The first line of a run comes before any request has ended and has no mean.
            if match := LIVE.match(line):
                show(float(match[2]), float(match[4]))


def measure(server, seconds, live):
    """Drives the server; returns rows (mode, test, requests, rate, latencies)."""
    rows = []
    for mode, pipeline in MODES:
        # A short run tells how many requests fill the time of a long one.
        sample = 5_000 * pipeline
        requests, duration, _ = run_benchmark(server, "set", pipeline, sample, lambda *_: None)
        share = seconds / len(MODES) / len(TESTS)
        wanted = max(sample, int(requests / max(duration, 0.01) * share))
        for test in TESTS:
            def show(rate, mean, test=test, mode=mode):
                live.show(f"{mode:9} {test.upper():4} {rate:12,.0f} requests/s, "
                          f"mean latency {mean:.3f} ms")
            requests, duration, latencies = run_benchmark(server, test, pipeline, wanted, show)
            rows.append((mode, test.upper(), requests, requests / max(duration, 1e-9), latencies))
    live.clear()
    return rows


def print_tables(rows, information):
    print()
    print(f"{'':15} {'requests':>12} {'requests/s':>12} {'p50 ms':>8} {'p99 ms':>8}")
    for mode, test, requests, rate, latencies in rows:
        print(f"{mode:9} {test:5} {requests:12,} {rate:12,.0f} {latencies['p50']:8.3f} "
              f"{latencies['p99']:8.3f}")
    print(f"{'all':15} {sum(row[2] for row in rows):12,}")
    print()
    print(f"{information['tasks_spawned']} tasks spawned, on {information['netpoll']}")
    print(f"{'processor':15} {'tasks run':>12} {'steals':>12} {'parks':>12} {'wakes':>12}")
    beyond = False
    for name, text in information.items():
        if match := re.fullmatch(r"processor_(\d+)", name):
            counts = dict(part.split("=") for part in text.split(","))
            columns = (int(counts[key]) for key in ("tasks_run", "steals", "parks", "wakes"))
            print(f"{match[1]:15} " + " ".join(f"{count:12,}" for count in columns))
            beyond = beyond or int(match[1]) >= int(information["processors"])
    if beyond:
        print(f"Beyond {information['processors']}: what has run in the place of a processor that "
              "one task kept.")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("server", help="the program")
    parser.add_argument("--seconds", type=int, default=10, help="how long to drive it, about")
    arguments = parser.parse_args()
    try:
        server = Server(arguments.server)
        try:
            print(f"the server listens on {server.host}:{server.port}; "
                  f"{CONNECTIONS} connections, values of 64 bytes, 100,000 keys", flush=True)
            rows = measure(server, arguments.seconds, LiveLine(sys.stdout))
            information = server.information()
            server.stop()
        finally:
            server.kill()
    except Failure as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        # The server has had the signal too, or was killed above.
        print("\ninterrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    print_tables(rows, information)
    return 0


if __name__ == "__main__":
    sys.exit(main())
