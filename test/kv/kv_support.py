# SPDX-License-Identifier: MIT
"""What the tests of the key-value server share: a server process, a client, waiting for a
condition, and a runner that reports as docs/testing.md asks."""

import contextlib
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

# No wait in these tests is expected to take long; this is the watchdog for all of them.
PATIENCE = 60.0


class Skip(Exception):
    """Raised by a case that cannot run here; the text says what is missing."""


def wait_until(what, condition, patience=PATIENCE):
    """Waits until `condition()` is true and returns what it returned."""
    deadline = time.monotonic() + patience
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {patience:.0f} s: {what}")
        time.sleep(0.01)


def equal(got, expected, what=""):
    if got != expected:
        raise AssertionError(f"{what}: got {got!r}, expected {expected!r}")


def raise_descriptor_limit(wanted):
    """Raises the soft limit as far as needed; skips the case where the hard limit forbids it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        if hard != resource.RLIM_INFINITY and hard < wanted:
            raise Skip(f"needs {wanted} descriptors; the hard limit RLIMIT_NOFILE is {hard}")
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Client:
    """A connection to a server, with buffered reading."""

    def __init__(self, server, timeout=PATIENCE):
        self.socket = socket.create_connection((server.host, server.port), timeout=timeout)
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def receive(self, size):
        """Exactly `size` bytes, or fewer at the end of the stream."""
        while len(self.buffer) < size:
            data = self.socket.recv(1 << 16)
            if not data:
                break
            self.buffer += data
        data, self.buffer = self.buffer[:size], self.buffer[size:]
        return data

    def receive_line(self):
        while b"\n" not in self.buffer:
            data = self.socket.recv(1 << 16)
            if not data:
                break
            self.buffer += data
        line, feed, self.buffer = self.buffer.partition(b"\n")
        return line + feed

    def receive_rest(self):
        """All bytes up to the end of the stream."""
        data, self.buffer = self.buffer, b""
        while True:
            more = self.socket.recv(1 << 16)
            if not more:
                return data
            data += more

    def reply(self):
        """One reply: bytes with their type as sent; arrays as lists."""
        line = self.receive_line()
        if not line:
            raise AssertionError("the server has closed the connection")
        if line[:1] == b"$" and line != b"$-1\r\n":
            size = int(line[1:])
            return self.receive(size + 2)[:-2]
        if line[:1] == b"*" and line != b"*-1\r\n":
            return [self.reply() for _ in range(int(line[1:]))]
        return line.strip()

    def __call__(self, *words):
        self.send(encode(*words))
        return self.reply()


def encode(*words):
    """A request as an array of bulk strings."""
    frame = b"*%d\r\n" % len(words)
    for word in words:
        if isinstance(word, str):
            word = word.encode()
        frame += b"$%d\r\n%s\r\n" % (len(word), word)
    return frame


class Server:
    """A running server on a free loopback port."""

    def __init__(self, program, backend, arguments=(), descriptors=None):
        self.stopped = False
        self.may_choose = backend == "auto"
        self.errors = tempfile.TemporaryFile()
        environment = dict(os.environ, WEFT_NETPOLL=backend)

        def limit():
            if descriptors is not None:
                resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

        self.process = subprocess.Popen(
            [program, "--port", "0", *arguments], stdin=subprocess.DEVNULL, env=environment,
            stdout=subprocess.PIPE, stderr=self.errors, preexec_fn=limit,
        )
        line = self.process.stdout.readline().decode()
        match = re.fullmatch(r"listening on (\S+):(\d+)\n", line)
        if not match:
            self.process.kill()
            raise AssertionError(f"the server did not start: {line!r} {self.error_text()!r}")
        self.host, self.port = match[1], int(match[2])

    def error_text(self):
        """What the server reported, without the one line that tells of the choice of epoll."""
        self.errors.seek(0)
        text = self.errors.read().decode("utf-8", "replace")
        if self.may_choose:
            text = re.sub(r"^weft: io_uring cannot start \(.*\); using epoll\n", "", text)
        return text

    def information(self, *sections):
        with Client(self) as client:
            text = client("INFO", *sections).decode()
        return dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)

    def descriptors(self):
        """What is open, by kind: sockets lose their numbers, so that two states can be compared."""
        kinds = []
        directory = f"/proc/{self.process.pid}/fd"
        for name in os.listdir(directory):
            with contextlib.suppress(FileNotFoundError):
                kinds.append(re.sub(r"\d+", "N", os.readlink(f"{directory}/{name}")))
        # The table of mounts is kept open from when the number of processors is looked at for the
        # first time, and another worker may run, with a ring, in the place of one that is kept.
        of_workers = ("/proc/N/mountinfo", "anon_inode:[eventfd]", "anon_inode:[io_uring]")
        return sorted(kind for kind in kinds if kind not in of_workers)

    def resident_bytes(self):
        with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    def stop(self, number=signal.SIGTERM):
        """Ends the server and returns what it has printed. Fails unless it ends by itself, with
        status 0."""
        self.stopped = True
        self.process.send_signal(number)
        try:
            output, _ = self.process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise AssertionError("the server does not end") from None
        equal(self.process.returncode, 0, f"exit status; errors: {self.error_text()[-4000:]}")
        return output.decode()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            if self.stopped:
                return
            if kind is None:
                self.stop()
            else:
                # The case has failed: what the server said may tell why.
                self.process.kill()
                self.process.communicate()
                print(f"  status {self.process.returncode}; {self.error_text()[-4000:]}")
        finally:
            self.errors.close()


def record(word, name):
    path = os.environ.get("WEFT_TEST_RECORD")
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"{word} {name}\n")


def run_cases(cases):
    """Runs (name, function) pairs, reports, and returns the exit status."""
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for name, function in cases:
        record("begin", name)
        begin = time.monotonic()
        outcome, text = "passed", ""
        try:
            function()
        except Skip as reason:
            outcome, text = "skipped", f": {reason}"
        except Exception:  # pylint: disable=broad-except
            outcome = "failed"
            traceback.print_exc(file=sys.stdout)
        counts[outcome] += 1
        record(outcome, name)
        print(f"{outcome:8}{name} ({time.monotonic() - begin:.1f} s){text}", flush=True)
    skipped = f", {counts['skipped']} skipped" if counts["skipped"] else ""
    print(f"{counts['passed']} passed, {counts['failed']} failed{skipped}")
    return 1 if counts["failed"] else 0
