#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Keeps the programs of the guide true.

usage: guide_programs.py extract PAGE OUTPUT...   writes the programs of a page, one to each file
       guide_programs.py test PAGE PROGRAM...     runs the built programs as docs/testing.md says

A program is a block of C++ with a main(); the block of text that follows is what it prints.
"""

import re
import subprocess
import sys
import unittest

BLOCK = re.compile(r"^```(cpp|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def programs(page):
    """Pairs of a program and what it prints."""
    with open(page, encoding="utf-8") as file:
        blocks = BLOCK.findall(file.read())
    found = []
    for index, (kind, text) in enumerate(blocks):
        if kind != "cpp" or "int main()" not in text:
            continue
        if index + 1 == len(blocks) or blocks[index + 1][0] != "text":
            sys.exit(f"{page}: program {len(found) + 1} is not followed by what it prints")
        found.append((text, blocks[index + 1][1]))
    return found


def extract(page, outputs):
    found = programs(page)
    if len(found) != len(outputs):
        sys.exit(f"{page} has {len(found)} programs; test/scripts/meson.build says {len(outputs)}")
    for (text, _), output in zip(found, outputs):
        with open(output, "w", encoding="utf-8") as file:
            file.write(text)


class GuideTest(unittest.TestCase):
    page = None
    built = []

    def test_each_program_prints_what_the_page_says(self):
        expected = programs(self.page)
        self.assertGreater(len(expected), 0)
        self.assertEqual(len(expected), len(self.built))
        for index, ((_, output), program) in enumerate(zip(expected, self.built)):
            with self.subTest(program=index + 1):
                done = subprocess.run([program], stdout=subprocess.PIPE, text=True, timeout=60,
                                      check=False)
                self.assertEqual(done.stdout, output)
                self.assertEqual(done.returncode, 0)


def main():
    if len(sys.argv) < 4 or sys.argv[1] not in ("extract", "test"):
        sys.exit(__doc__)
    if sys.argv[1] == "extract":
        extract(sys.argv[2], sys.argv[3:])
        return
    GuideTest.page = sys.argv[2]
    GuideTest.built = sys.argv[3:]
    result = unittest.main(argv=sys.argv[:1], exit=False).result
    failed = len(result.failures) + len(result.errors)
    sys.stderr.flush()
    print(f"{result.testsRun - min(failed, result.testsRun)} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
