# SPDX-License-Identifier: MIT
"""What the suites share: pinned processes, the results of all rounds, and their table."""

import ctypes
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys

PATIENCE_S = 120  # No single program of a benchmark runs nearly as long.


class Failure(Exception):
    """A benchmark that could not be run, with a text for the user."""


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


def build_go_program(suite, source, directory):
    """The program of a suite that does the same in Go; None where there is no Go."""
    if shutil.which("go") is None:
        print(f"{suite}: go is not installed, so weft is not compared with it.")
        return None
    program = (directory / f"{suite}_go").absolute()
    cache = (directory.parent / "go-cache").absolute()
    progress(f"{suite}: building the program in Go")
    done = subprocess.run(["go", "build", "-o", str(program), str(source)], check=False,
                          stderr=subprocess.PIPE, text=True,
                          env={**os.environ, "GO111MODULE": "off", "GOCACHE": str(cache)})
    if done.returncode != 0:
        raise Failure(f"go build: {done.stderr.strip()}")
    return program


def measure_cases(suite, cases, units, programs, arguments, results, rounds):
    """Every case of a suite, on each number of processors, with the program of each runtime, where
    there is one: it prints a line of JSON with a figure for each of the units."""
    available = sorted(os.sched_getaffinity(0))
    minimum = 100 if arguments.quick else 200
    for index in range(rounds):
        for case in cases:
            for count in arguments.procs:
                progress(f"{suite}: round {index + 1} of {rounds}, {case}, {count} processors")
                for runtime, program in programs.items():
                    if program is None:
                        continue
                    environment = {**weft_environment(count), "GOMAXPROCS": str(count)}
                    done = run_program([program, f"--case={case}", f"--minimum-ms={minimum}"],
                                       set(available[:count]), env=environment)
                    line = json.loads(done.stdout)
                    for metric, unit in units.items():
                        results.add(suite, case, runtime, count, metric, unit, line[metric])


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


def progress(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
