#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that misuse does not compile, and that the compiler says why.

usage: compile_test.py BUILD_DIRECTORY SOURCE

Compiles the source as the build directory compiles one of weft's own files, once for each number of
the macro MISUSE. Number 0 must compile without a warning.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import unittest

FOREIGN = "weft: this awaiter takes a plain std::coroutine_handle<>"
REFERENCE = "weft: as_result of an operation that gives a reference"
MAKES_TASK = "weft: the function that is given to blocking() makes a task"
MISUSES = {1: FOREIGN, 2: FOREIGN, 3: FOREIGN, 4: FOREIGN, 5: FOREIGN, 6: FOREIGN, 7: FOREIGN,
           8: REFERENCE, 9: "weft: a task<T&&> would give a reference",
           10: MAKES_TASK, 11: MAKES_TASK, 12: MAKES_TASK}
MODEL = "lib/task/task.cpp"

# Options with which weft must refuse to be compiled, and what it says. Old compilers are pretended,
# since none is at hand; the compiler looks at nothing but its own macros.
REFUSED = [
    (["-std=c++17"], "weft needs C++20"),
    (["-fno-exceptions"], "weft needs exceptions"),
]
OLD_COMPILERS = {
    "clang": (["-U__clang_major__", "-D__clang_major__=16"], "weft needs clang 17 or later"),
    "gcc": (["-U__GNUC__", "-D__GNUC__=12"], "weft needs GCC 13 or later"),
}
COMPILER_HEADER = "weft/detail/base/compiler.hpp"

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


def is_clang(command, where):
    macros = subprocess.run([*command, "-dM", "-E", "-x", "c++", os.devnull], cwd=where,
                            check=True, stdout=subprocess.PIPE, timeout=60).stdout
    return b"__clang__" in macros


def include_directory():
    return os.path.join(os.path.dirname(source), "..", "..", "include")


def included_by(header, seen):
    """All headers of weft that the header includes, directly or not."""
    with open(os.path.join(include_directory(), header), encoding="utf-8") as file:
        for name in re.findall(r"^#include <(weft/[^>]+)>", file.read(), re.MULTILINE):
            if name not in seen:
                seen.add(name)
                included_by(name, seen)
    return seen


class CompileTest(unittest.TestCase):
    def test_unfit_compilers_and_options_are_refused_with_a_reason(self):
        command, where = model_command()
        kind = "clang" if is_clang(command, where) else "gcc"
        for options, reason in [*REFUSED, OLD_COMPILERS[kind]]:
            with self.subTest(options=options):
                process = subprocess.run(
                    [*command, "-w", *options, "-fsyntax-only", "-x", "c++", "-"], cwd=where,
                    input=b"#include <weft/weft.hpp>\n", check=False, stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT, timeout=300)
                self.assertNotEqual(process.returncode, 0)
                self.assertIn(reason, process.stdout.decode("utf-8", "replace"))

    def test_every_public_header_looks_at_the_compiler(self):
        for folder in ("weft", "weft/net"):
            for name in sorted(os.listdir(os.path.join(include_directory(), folder))):
                if name.endswith(".hpp"):
                    with self.subTest(header=name):
                        header = f"{folder}/{name}"
                        self.assertIn(COMPILER_HEADER, included_by(header, set()))

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
    # A misuse is a case of its own, and so is a refused option.
    cases = len(MISUSES) + len(REFUSED) + 3
    failed = min(bad, cases)
    print(f"{cases - failed} passed, {failed} failed", flush=True)
    sys.exit(bad != 0)
