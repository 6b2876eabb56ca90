#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that misuse does not compile, and that the compiler says why.

usage: compile_test.py BUILD_DIRECTORY SOURCE

Compiles the source as the build directory compiles one of weft's own files, once for each number of
the macro MISUSE. Number 0 must compile without a warning.
"""

import json
import os
import shlex
import subprocess
import sys
import unittest

FOREIGN = "weft: this awaiter takes a plain std::coroutine_handle<>"
REFERENCE = "weft: as_result of an operation that gives a reference"
MISUSES = {1: FOREIGN, 2: FOREIGN, 3: FOREIGN, 4: FOREIGN, 5: FOREIGN, 6: FOREIGN, 7: FOREIGN,
           8: REFERENCE}
MODEL = "lib/task/task.cpp"

directory, source = (os.path.abspath(path) for path in sys.argv[1:3])


def model_command():
    """The command that compiles one of weft's own files, without its source and its outputs."""
    with open(os.path.join(directory, "compile_commands.json"), encoding="utf-8") as file:
        entry = next(each for each in json.load(file) if each["file"].endswith(MODEL))
    words = iter(shlex.split(entry["command"]))
    kept = []
    for word in words:
        if word in ("-o", "-c", "-MF", "-MQ"):
            next(words)
        elif word != "-MD":
            kept.append(word)
    return kept, entry["directory"]


def compile_misuse(number):
    command, where = model_command()
    process = subprocess.run(
        [*command, "-fsyntax-only", f"-DMISUSE={number}", source], cwd=where, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    return process.returncode, process.stdout.decode("utf-8", "replace")


class CompileTest(unittest.TestCase):
    def test_right_use_compiles(self):
        self.assertEqual(compile_misuse(0), (0, ""))

    def test_misuse_is_refused_with_a_reason(self):
        for number, reason in MISUSES.items():
            with self.subTest(misuse=number):
                status, output = compile_misuse(number)
                self.assertNotEqual(status, 0)
                self.assertIn(reason, output)


if __name__ == "__main__":
    outcome = unittest.main(argv=sys.argv[:1], exit=False, verbosity=1).result
    bad = len(outcome.failures) + len(outcome.errors)
    sys.stderr.flush()
    # A misuse is a case of its own.
    failed = min(bad, len(MISUSES) + 1)
    print(f"{len(MISUSES) + 1 - failed} passed, {failed} failed", flush=True)
    sys.exit(bad != 0)
