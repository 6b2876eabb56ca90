#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Adds up what scripts/run_tests.py has appended to a file of totals: 'passed failed skipped LABEL'
for each configuration. Prints a line for each and ends with the line 'N passed, N failed', before
which 'N skipped' stands where cases were skipped. The status is 0 if and only if nothing failed."""

import sys


def main():
    configurations = []
    with open(sys.argv[1], encoding="utf-8") as file:
        for line in file:
            *counts, label = line.rstrip("\n").split(" ", 3)
            configurations.append((label, *map(int, counts)))
    print()
    for label, passed, failed, skipped in configurations:
        print(f"{label:30} {passed:5} passed, {failed} failed, {skipped} skipped")
    passed, failed, skipped = (sum(each[i] for each in configurations) for i in (1, 2, 3))
    if passed + failed == 0:
        print("no test was run", file=sys.stderr)
        failed = 1
    if skipped:
        print(f"{skipped} skipped")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
