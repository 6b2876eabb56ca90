#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the benchmarks of a release build; scripts/bench makes that build and calls this.

docs/benchmarks.md says what each case means and how noise is kept out of the figures.
"""

import argparse
import contextlib
import json
import os
import pathlib
import platform
import sys
import time

import channel_suite
import echo_suite
import latency_suite
import sched_suite
from measuring import Failure, Results, print_table, progress

SUITES = ("sched", "channel", "echo", "latency")


def processor_list(text):
    try:
        counts = [int(part) for part in text.split(",")]
    except ValueError:
        counts = []
    if not counts or min(counts) < 1 or max(counts) > 1024:
        raise argparse.ArgumentTypeError(f"'{text}' is no list of processor counts such as 1,2")
    return list(dict.fromkeys(counts))


def runtime_list(text):
    names = text.split(",")
    for name in names:
        if name not in echo_suite.RUNTIMES:
            raise argparse.ArgumentTypeError(f"'{name}' is none of {', '.join(echo_suite.RUNTIMES)}")
    return list(dict.fromkeys(names))


def parse_arguments():
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        allow_abbrev=False,
        description="Builds weft in release and measures it. SUITE is sched (spawn, join, yield,"
        " wake-ups), channel (values handed from task to task), echo (64-byte TCP echo against"
        " servers written by hand over epoll and liburing) or latency (how long what is ready waits"
        " beside busy tasks); all of them without one. Where Go is installed, channel and latency"
        " are measured against it.",
    )
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(SUITES))
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--procs", type=processor_list, default=[1, 2], metavar="LIST",
                        help="processors of all suites (1,2) but echo, which always serves with one")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE",
                        help="also write the results to FILE as JSON")
    parser.add_argument("--runtimes", type=runtime_list, default=list(echo_suite.RUNTIMES),
                        metavar="LIST", help="servers of the suite echo (weft,epoll,liburing)")
    parser.add_argument("--instructions", action="store_true",
                        help="also count instructions in the suite sched (needs valgrind)")
    parser.add_argument("--build-directory", type=pathlib.Path, help=argparse.SUPPRESS)
    arguments = parser.parse_intermixed_args()
    for suite in arguments.suites:
        if suite not in SUITES:
            parser.error(f"unknown suite '{suite}'; there are: {', '.join(SUITES)}")
    arguments.suites = [suite for suite in SUITES if suite in (arguments.suites or SUITES)]
    if arguments.json and not arguments.json.absolute().parent.is_dir():
        parser.error(f"--json: there is no directory for {arguments.json}")
    return arguments


def processor_model():
    with contextlib.suppress(OSError):
        for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def describe_machine():
    load = os.getloadavg()[0]
    print(f"{processor_model()}, {len(os.sched_getaffinity(0))} CPUs, Linux {platform.release()},"
          f" load {load:.2f}")
    if load > 0.5:
        print("Something else is running; the figures are the worse for it.")


def main():
    arguments = parse_arguments()
    if arguments.build_directory is None:
        return 0  # scripts/bench only wanted to know whether the arguments are good.
    rounds = 3 if arguments.quick else 5
    results = Results()
    describe_machine()
    begin = time.monotonic()
    try:
        if "sched" in arguments.suites:
            sched_suite.run(arguments, results, rounds)
        if "channel" in arguments.suites:
            channel_suite.run(arguments, results, rounds)
        if "echo" in arguments.suites:
            echo_suite.run(arguments, results, rounds)
        if "latency" in arguments.suites:
            latency_suite.run(arguments, results, rounds)
    except (Failure, FileNotFoundError) as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 1
    progress("")
    rows = list(results.rows())
    print_table(rows)
    if "echo" in arguments.suites:
        echo_suite.print_verdict(results)
    if "latency" in arguments.suites:
        latency_suite.print_verdict(results, arguments.procs)
    print(f"\n{rounds} rounds in {time.monotonic() - begin:.0f} s")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
