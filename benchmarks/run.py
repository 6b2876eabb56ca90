#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the benchmarks of a release build; scripts/bench makes that build and calls this.

docs/benchmarks.md says what each case means and how noise is kept out of the figures.
"""

import argparse
import contextlib
import ctypes
import json
import os
import pathlib
import platform
import re
import select
import signal
import statistics
import subprocess
import sys
import time

SUITES = ("sched", "echo")
SCHED_CASES = ("spawn_join_one", "spawn_join_batch", "yield_1", "yield_1000", "ping_pong")
SCHED_UNITS = {"ns_per_op": "ns", "cpu_ns_per_op": "ns", "wakes_per_op": "1"}
ECHO_CASES = {"c1": 1, "c32": 32, "c256": 256}
ECHO_RUNTIMES = ("weft", "epoll", "liburing")
ECHO_UNITS = {
    "cpu_us_per_req": "us",
    "req_per_s": "1/s",
    "p50_us": "us",
    "p99_us": "us",
    "waits_per_req": "1",
}
PATIENCE_S = 120  # No single program of a benchmark runs nearly as long.


class Failure(Exception):
    """A benchmark that could not be run, with a text for the user."""


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
        if name not in ECHO_RUNTIMES:
            raise argparse.ArgumentTypeError(f"'{name}' is none of {', '.join(ECHO_RUNTIMES)}")
    return list(dict.fromkeys(names))


def parse_arguments():
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        allow_abbrev=False,
        description="Builds weft in release and measures it. SUITE is sched (spawn, join, yield,"
        " wake-ups) or echo (64-byte TCP echo against servers written by hand over epoll and"
        " liburing); all of them without one.",
    )
    parser.add_argument("suites", nargs="*", metavar="SUITE", help="sched, echo")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--procs", type=processor_list, default=[1, 2], metavar="LIST",
                        help="processors of the suite sched (1,2); echo always serves with one")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE",
                        help="also write the results to FILE as JSON")
    parser.add_argument("--runtimes", type=runtime_list, default=list(ECHO_RUNTIMES),
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


# Pinning: the server has one processor for itself and the client another.


def choose_processors():
    available = sorted(os.sched_getaffinity(0))
    if len(available) > 1:
        return available[0], available[1]
    print("Only one processor may be used: server and client share it, so that req_per_s and"
          " the latencies say little and the CPU times include each other's cache misses.")
    return available[0], available[0]


def pinned(processors):
    """What a child does before it starts its program."""

    def prepare():
        os.sched_setaffinity(0, processors)
        # The child ends when this script does, however it ends.
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGTERM)

    return prepare


def run_program(command, processors, **options):
    """The standard output of a program that is expected to succeed."""
    try:
        done = subprocess.run([str(part) for part in command], preexec_fn=pinned(processors),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=PATIENCE_S, check=False, **options)
    except subprocess.TimeoutExpired as error:
        raise Failure(f"{command[0]} did not end within {PATIENCE_S} s") from error
    if done.returncode != 0:
        raise Failure(f"{command[0]} ended with status {done.returncode}: {done.stderr.strip()}")
    return done


def weft_environment(procs):
    """The environment of a program that uses weft. Of weft's own variables only the choice of the
    netpoller is the user's."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("WEFT_") or name == "WEFT_NETPOLL"}
    environment["WEFT_MAXPROCS"] = str(procs)
    return environment


# Results: every figure of every round, keyed by what it is of.


class Results:
    def __init__(self):
        self.rounds = {}

    def add(self, suite, case, runtime, procs, metric, unit, value):
        key = (suite, case, runtime, procs, metric, unit)
        self.rounds.setdefault(key, []).append(value)

    def rows(self):
        names = ("suite", "case", "runtime", "procs", "metric", "unit")
        for key, values in self.rounds.items():
            row = dict(zip(names, key))
            row.update(value=statistics.median(values), min=min(values), max=max(values),
                       runs=len(values))
            yield row

    def of(self, *key):
        for known, values in self.rounds.items():
            if known[:len(key)] == key:
                return values
        return []


def number(value):
    if value == 0 or abs(value) >= 1000:
        return f"{value:,.0f}"
    digits = 3 if abs(value) < 10 else 1
    return f"{value:.{digits}f}"


def print_table(rows):
    titles = ("suite", "case", "runtime", "procs", "metric", "median", "min", "max", "unit")
    lines = [titles]
    for row in rows:
        lines.append((row["suite"], row["case"], row["runtime"], str(row["procs"]), row["metric"],
                      number(row["value"]), number(row["min"]), number(row["max"]), row["unit"]))
    widths = [max(len(line[i]) for line in lines) for i in range(len(titles))]
    numeric = {3, 5, 6, 7}
    print()
    for line in lines:
        print("  ".join(text.rjust(width) if i in numeric else text.ljust(width)
                        for i, (text, width) in enumerate(zip(line, widths))).rstrip())


# The suite echo.


@contextlib.contextmanager
def echo_server(program, processor):
    """Starts a server; gives its process and the port that it tells."""
    with subprocess.Popen([str(program)], preexec_fn=pinned({processor}), text=True,
                          stdout=subprocess.PIPE, env=weft_environment(1)) as process:
        try:
            readable, _, _ = select.select([process.stdout], [], [], 10)
            line = process.stdout.readline() if readable else ""
            told = re.fullmatch(r"port (\d+)\n", line)
            if not told:
                raise Failure(f"{program} did not tell its port within 10 s")
            yield process, int(told[1])
        finally:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()


def echo_round(directory, runtimes, connections, slices, processors):
    """All servers at once, each driven in turn for a short slice; those not driven sleep."""
    server_processor, client_processor = processors
    with contextlib.ExitStack() as stack:
        command = [directory / "echo_client", f"--connections={connections}",
                   f"--slices={slices}"]
        for runtime in runtimes:
            program = directory / f"echo_{runtime}_server"
            process, port = stack.enter_context(echo_server(program, server_processor))
            command.append(f"{runtime}:{port}:{process.pid}")
        return [json.loads(line) for line in
                run_program(command, {client_processor}).stdout.splitlines()]


def add_ratio(results, case, figures):
    """What weft takes as a multiple of the better server that was written by hand."""
    by_hand = [figures[name] for name in ("epoll", "liburing") if name in figures]
    if "weft" in figures and by_hand:
        results.add("echo", case, "weft", 1, "cpu_ratio", "1", figures["weft"] / min(by_hand))


def run_echo(arguments, results, rounds):
    processors = choose_processors()
    directory = arguments.build_directory / "benchmarks" / "echo"
    slices = 10 if arguments.quick else 20
    for index in range(rounds):
        # Whoever follows whom must not decide, so each round begins with another one.
        first = index % len(arguments.runtimes)
        order = arguments.runtimes[first:] + arguments.runtimes[:first]
        for case, connections in ECHO_CASES.items():
            progress(f"echo: round {index + 1} of {rounds}, {case}")
            figures = {}
            for line in echo_round(directory, order, connections, slices, processors):
                figures[line["name"]] = line
            for runtime in arguments.runtimes:
                for metric, unit in ECHO_UNITS.items():
                    results.add("echo", case, runtime, 1, metric, unit, figures[runtime][metric])
            add_ratio(results, case,
                      {name: line["cpu_us_per_req"] for name, line in figures.items()})


def print_echo_ratios(results):
    print()
    for case in ECHO_CASES:
        ratios = results.of("echo", case, "weft", 1, "cpu_ratio")
        if ratios:
            print(f"echo {case}: weft takes {statistics.median(ratios):.3f} times the CPU time of"
                  f" the better server written by hand ({min(ratios):.3f} to {max(ratios):.3f}"
                  f" in {len(ratios)} rounds)")


# The suite sched.


def run_sched(arguments, results, rounds):
    program = arguments.build_directory / "benchmarks" / "sched" / "sched_bench"
    available = sorted(os.sched_getaffinity(0))
    minimum = 100 if arguments.quick else 200
    for count in arguments.procs:
        if count > len(available):
            print(f"sched: {count} processors on {len(available)} CPUs compete with each other.")
    for index in range(rounds):
        for case in SCHED_CASES:
            for count in arguments.procs:
                progress(f"sched: round {index + 1} of {rounds}, {case}, {count} processors")
                done = run_program([program, f"--case={case}", f"--minimum-ms={minimum}"],
                                   set(available[:count]), env=weft_environment(count))
                line = json.loads(done.stdout)
                for metric, unit in SCHED_UNITS.items():
                    results.add("sched", case, "weft", count, metric, unit, line[metric])
    if arguments.instructions:
        count_instructions(program, available, results)


def instructions_of(program, case, operations, processors):
    """Instructions that a whole run of the program takes, as callgrind counts them."""
    environment = weft_environment(1)
    environment["WEFT_NETPOLL"] = "epoll"  # Not every valgrind knows all of io_uring.
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program,
               f"--case={case}", f"--operations={operations}"]
    told = run_program(command, processors, env=environment).stderr
    return int(re.search(r"Collected : (\d+)", told)[1])


def count_instructions(program, available, results):
    """Two lengths, so that what a run takes anyway falls out of the difference."""
    few, many = 20_000, 120_000
    for case in SCHED_CASES:
        progress(f"sched: instructions, {case}")
        try:
            short, long = (instructions_of(program, case, operations, {available[0]})
                           for operations in (few, many))
        except FileNotFoundError:
            print("sched: valgrind is not there, so instructions are not counted.")
            return
        results.add("sched", case, "weft", 1, "instructions_per_op", "1",
                    (long - short) / (many - few))


# The frame around the suites.


def progress(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


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
            run_sched(arguments, results, rounds)
        if "echo" in arguments.suites:
            run_echo(arguments, results, rounds)
    except (Failure, FileNotFoundError) as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 1
    progress("")
    rows = list(results.rows())
    print_table(rows)
    if "echo" in arguments.suites:
        print_echo_ratios(results)
    print(f"\n{rounds} rounds in {time.monotonic() - begin:.0f} s")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
