#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Keeps the first program of the README true.

usage: readme_program.py extract README OUTPUT   writes the program, ready to be compiled; its
                                                 address comes from WEFT_README_ADDRESS then
       readme_program.py test README PROGRAM     runs the built program as docs/testing.md says
"""

import os
import socket
import subprocess
import sys
import time
import unittest

ADDRESS = '"127.0.0.1:7000"'


def first_program(readme):
    with open(readme, encoding="utf-8") as file:
        text = file.read()
    return text.split("```cpp\n", 1)[1].split("```", 1)[0]


def extract(readme, output):
    program = first_program(readme)
    if program.count(ADDRESS) != 1:
        sys.exit(f"the program does not name {ADDRESS} once")
    with open(output, "w", encoding="utf-8") as file:
        file.write("#include <cstdlib>\n")
        file.write(program.replace(ADDRESS, 'std::getenv("WEFT_README_ADDRESS")'))


def connect(port, process):
    """Connects once the program listens; gives up when it has ended or after ten seconds."""
    for _ in range(200):
        if process.poll() is not None:
            raise AssertionError(f"the program ended with status {process.returncode}")
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=10)
        except ConnectionRefusedError:
            time.sleep(0.05)
    raise AssertionError("nobody listens after ten seconds")


class ReadmeTest(unittest.TestCase):
    readme = program = None

    def test_the_first_program_has_under_twenty_lines(self):
        self.assertLess(len(first_program(self.readme).splitlines()), 20)

    def test_the_first_program_echoes(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        environment = dict(os.environ, WEFT_README_ADDRESS=f"127.0.0.1:{port}")
        process = subprocess.Popen([self.program], env=environment)
        try:
            for message in (b"warp", b"weft" * 5000):
                with connect(port, process) as client:
                    client.sendall(message)
                    client.shutdown(socket.SHUT_WR)
                    received = b""
                    while part := client.recv(65536):
                        received += part
                self.assertEqual(received, message)
        finally:
            process.kill()
            process.wait()


def main():
    command, readme, path = sys.argv[1:]
    if command == "extract":
        extract(readme, path)
        return 0
    ReadmeTest.readme, ReadmeTest.program = readme, path
    outcome = unittest.main(argv=sys.argv[:1], exit=False).result
    bad = len(outcome.failures) + len(outcome.errors)
    sys.stderr.flush()
    print(f"{outcome.testsRun - bad} passed, {bad} failed", flush=True)
    return int(bad != 0)


if __name__ == "__main__":
    sys.exit(main())
