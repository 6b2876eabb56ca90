#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Rules for the sources that a compiler does not check."""

import hashlib
import os
import re
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# From the lowest layer to the highest. A file includes its own layer and lower ones.
LAYERS = ["base", "branch", "time", "blocking", "sched", "netpoll", "task", "sync", "net"]
# The interface of the netpoller, which the scheduler calls and the netpoller implements.
OPEN_TO_ALL = {"netpoll/netpoller"}
PLACE = re.compile(r"^(?:include/weft/detail|lib)/(\w+)/")
INCLUDE = re.compile(r'^#include [<"](?:weft/detail|lib)/((\w+)/\w+)\.hpp[>"]', re.MULTILINE)
ASSERTION = re.compile(r"\b(?:CHECK|REQUIRE)(?:_[A-Z_]+)?\(")


def sources(*directories):
    for directory in directories:
        for parent, _, names in os.walk(os.path.join(ROOT, directory)):
            for name in names:
                if name.endswith((".cpp", ".hpp")):
                    path = os.path.join(parent, name)
                    with open(path, encoding="utf-8") as file:
                        yield os.path.relpath(path, ROOT), file.read()


def awaits_in_assertions(text):
    """The line numbers of assertions with a co_await of the surrounding coroutine in them."""
    lines = []
    for match in ASSERTION.finditer(text):
        depth, end = 1, match.end()
        while depth and end < len(text):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        # What stands behind a brace is the body of a lambda, a coroutine of its own.
        if "co_await" in text[match.end():end].split("{")[0]:
            lines.append(text.count("\n", 0, match.start()) + 1)
    return lines


def includes_of_higher_layers(path, text):
    """What a file of weft includes that lies in a layer above its own."""
    place = PLACE.match(path)
    if place is None:
        return []
    height = LAYERS.index(place.group(1))
    return [f"{path} includes {included}" for included, layer in INCLUDE.findall(text)
            if LAYERS.index(layer) > height and included not in OPEN_TO_ALL]


def pictures_out_of_date(directory):
    """The names of diagrams whose picture is missing, or was made from another text."""
    found = []
    for name in sorted(os.listdir(directory)):
        base, extension = os.path.splitext(name)
        if extension != ".dot":
            continue
        with open(os.path.join(directory, name), "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        picture = os.path.join(directory, base + ".svg")
        if not os.path.exists(picture):
            found.append(base)
            continue
        with open(picture, encoding="utf-8") as file:
            if f"made from {name}, sha256 {digest}" not in file.read():
                found.append(base)
    return found


class SourceRulesTest(unittest.TestCase):
    def test_the_search_finds_awaits_in_assertions(self):
        found = awaits_in_assertions(
            "CHECK(co_await f() == 1);\nREQUIRE(g(1) ==\n  co_await f());\nCHECK(ready);\n"
            "co_await f();\nCHECK(run([] { co_await f(); }));\nCHECK_FALSE(co_await f());\n")
        self.assertEqual(found, [1, 2, 7])

    def test_no_await_stands_in_an_assertion(self):
        # The macros of Catch2 repeat the expression in the operand of __builtin_constant_p and in
        # `while (false && ...)`. It is not to be evaluated there, but GCC 14 performs the awaits
        # in both. Await into a variable, then assert.
        found = [f"{path}:{line}" for path, text in sources("test")
                 for line in awaits_in_assertions(text)]
        self.assertEqual(found, [])

    def test_the_search_finds_includes_of_higher_layers(self):
        text = ("#include <weft/detail/base/layer.hpp>\n#include <weft/detail/task/join.hpp>\n"
                '#include "lib/netpoll/ring.hpp"\n#include <weft/detail/netpoll/netpoller.hpp>\n')
        found = includes_of_higher_layers("lib/sched/worker.cpp", text)
        self.assertEqual(found, ["lib/sched/worker.cpp includes task/join",
                                 "lib/sched/worker.cpp includes netpoll/ring"])
        self.assertEqual(includes_of_higher_layers("lib/net/tcp.cpp", text), [])

    def test_lower_layers_never_include_higher_ones(self):
        found = [each for path, text in sources("include", "lib")
                 for each in includes_of_higher_layers(path, text)]
        self.assertEqual(found, [])

    def test_the_search_finds_pictures_that_are_out_of_date(self):
        with tempfile.TemporaryDirectory() as directory:
            def write(name, text):
                with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
                    file.write(text)
            write("a.dot", "digraph a {}")
            write("b.dot", "digraph b {}")
            write("c.dot", "digraph c {}")
            digest = hashlib.sha256(b"digraph a {}").hexdigest()
            write("a.svg", f"<svg/><!-- made from a.dot, sha256 {digest} -->")
            write("b.svg", f"<svg/><!-- made from b.dot, sha256 {digest} -->")
            self.assertEqual(pictures_out_of_date(directory), ["b", "c"])

    def test_each_picture_is_made_from_its_text(self):
        # Draw them again with scripts/diagrams.
        self.assertEqual(pictures_out_of_date(os.path.join(ROOT, "docs", "diagrams")), [])

    def test_each_source_file_names_its_license(self):
        directories = ("include", "lib", "test", "examples", "benchmarks")
        found = [path for path, text in sources(*directories)
                 if not text.startswith("// SPDX-License-Identifier: MIT\n")]
        self.assertEqual(found, [])

    def test_no_line_is_longer_than_100_columns(self):
        directories = ("include", "lib", "test", "examples", "benchmarks")
        found = [f"{path}:{number}" for path, text in sources(*directories)
                 for number, line in enumerate(text.splitlines(), 1) if len(line) > 100]
        self.assertEqual(found, [])


if __name__ == "__main__":
    outcome = unittest.main(exit=False, verbosity=1).result
    bad = len(outcome.failures) + len(outcome.errors)
    sys.stderr.flush()
    print(f"{outcome.testsRun - bad} passed, {bad} failed", flush=True)
    sys.exit(bad != 0)
