#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the tests of one Meson build directory and counts test cases.

The tests are those that the build directory declares with test(). docs/testing.md has the rules
by which a test program reports; in short: a last line "N passed, N failed" on the standard output,
and, for programs that write a record (WEFT_TEST_RECORD), one line for each case as it begins and
ends. A program that crashes, hangs, exits with another status than its line tells, or runs no
case counts as a failed case on top of what it reported.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

# What a model says of each of its scenarios, and of its mutants.
SEARCH = re.compile(r"^.*: ok, (\d+) executions.* at .* \(exhaustive\), (\d+) random", re.MULTILINE)
MUTANTS = re.compile(r": mutants found (\d+)/(\d+)$", re.MULTILINE)
TOTALS = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$")


class Result:
    def __init__(self):
        self.passed = 0
        self.failed = 0
        self.skipped = 0
        self.problems = []

    def fail(self, text):
        self.failed += 1
        self.problems.append(text)


def parse_record(path):
    """The cases of a record file: (name, outcome); the outcome of one that did not end is None."""
    cases = []
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                word, _, name = line.rstrip("\n").partition(" ")
                if word == "begin":
                    cases.append([name, None])
                elif cases and word in ("passed", "failed", "skipped"):
                    cases[-1][1] = word
    except FileNotFoundError:
        pass
    return cases


def stop_group(process):
    """Ends a test and whatever it started: SIGABRT lets it tell where it is, SIGKILL is final."""
    for number, grace in ((signal.SIGABRT, 5), (signal.SIGKILL, 5)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        try:
            process.wait(grace)
        except subprocess.TimeoutExpired:
            continue
    # The leader is gone; what it has left in its group goes as well.
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def wait_for(process, record, timeout, case_timeout):
    """Waits for the end of a test. Returns a text if it had to be ended."""
    begin = time.monotonic()
    size, since = 0, begin
    while True:
        try:
            process.wait(0.2)
            return None
        except subprocess.TimeoutExpired:
            pass
        now = time.monotonic()
        try:
            new_size = os.stat(record).st_size
        except FileNotFoundError:
            new_size = 0
        if new_size != size:
            size, since = new_size, now
        text = None
        if now - begin > timeout:
            text = f"did not end within {timeout:.0f} s"
        elif size and now - since > case_timeout:
            text = f"no case ended within {case_timeout:.0f} s"
        if text:
            stop_group(process)
            return text


def last_totals(output):
    """The line with the totals. What went to the standard error stream may stand behind it."""
    for line in reversed(output.rstrip("\n").split("\n")[-20:]):
        if match := TOTALS.match(line.strip()):
            return match
    return None


def judge(cases, output, status, hang):
    """Counts what a test program reported, and what it did not report."""
    result = Result()
    totals = last_totals(output)
    if cases:
        result.passed = sum(outcome == "passed" for _, outcome in cases)
        result.skipped = sum(outcome == "skipped" for _, outcome in cases)
        for name, outcome in cases:
            if outcome == "failed":
                result.fail(f"case failed: {name}")
    elif totals and not hang:
        result.passed, result.failed = int(totals[1]), int(totals[2])
        result.skipped = int(totals[3] or 0)
        if result.failed:
            result.problems.append(f"{result.failed} failed")
    running = f" in case: {cases[-1][0]}" if cases and cases[-1][1] is None else ""
    if hang:
        result.fail(f"hang: {hang}{running}")
    elif status < 0:
        name = signal.Signals(-status).name if -status in signal.valid_signals() else -status
        # A signal that Catch2 caught has failed its case already.
        if running or not result.failed:
            result.fail(f"ended by {name}{running}")
    elif running:
        result.fail(f"exited with status {status}{running}")
    elif status != 0 and not result.failed:
        result.fail(f"exited with status {status} although no case failed")
    elif status == 0 and result.failed:
        result.problems.append("exited with status 0 although a case failed")
    elif not totals:
        result.fail("the output does not end with the line 'N passed, N failed'")
    elif result.passed + result.failed + result.skipped == 0:
        result.fail("ran no test")
    return result


def summary_of_model(output):
    """What a model has explored, in one line; nothing for other programs."""
    searches = SEARCH.findall(output)
    mutants = MUTANTS.search(output)
    if not searches and not mutants:
        return None
    explored, at_random = (sum(int(search[i]) for search in searches) for i in (0, 1))
    text = f"{explored} executions in exhaustive searches and {at_random} at random"
    return text + (f", mutants found {mutants[1]}/{mutants[2]}" if mutants else "")


def test_environment(test, arguments, record):
    environment = dict(os.environ)
    environment.update(test["env"] if isinstance(test["env"], dict) else {})
    for setting in arguments.env:
        name, _, value = setting.partition("=")
        environment[name] = value
    environment["WEFT_TEST_RECORD"] = record
    if arguments.long:
        environment["WEFT_TEST_LONG"] = "1"
    return environment


def run(test, arguments, wrapper):
    """Runs one declared test; returns its result and its output."""
    scale = arguments.timeout_scale * (30 if arguments.long else 1)
    timeout = (test["timeout"] or 3600) * scale
    with tempfile.TemporaryDirectory(prefix="weft-test-") as directory:
        record = os.path.join(directory, "record")
        with open(os.path.join(directory, "output"), "w+b") as output:
            process = subprocess.Popen(
                wrapper + test["cmd"] + arguments.argument,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=test["workdir"] or arguments.directory,
                env=test_environment(test, arguments, record),
                start_new_session=True,
            )
            try:
                hang = wait_for(process, record, timeout, arguments.case_timeout * scale)
            except BaseException:
                stop_group(process)
                raise
            stop_group(process)
            output.seek(0)
            text = output.read().decode("utf-8", "replace")
        return judge(parse_record(record), text, process.returncode, hang), text


def declared_tests(directory):
    text = subprocess.run(
        ["meson", "introspect", "--tests", directory], check=True, stdout=subprocess.PIPE
    ).stdout
    return json.loads(text)


def suites_of(test):
    return {suite.split(":")[-1] for suite in test["suite"]}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("directory", help="a built Meson build directory")
    parser.add_argument("--label", default="", help="name of the configuration, for the output")
    parser.add_argument("--long", action="store_true", help="the long forms of the stress tests")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--suite", action="append", default=[], help="run only these suites")
    parser.add_argument("--no-suite", action="append", default=[], help="leave these suites out")
    parser.add_argument("--case-timeout", type=float, default=120, help="seconds for one case")
    parser.add_argument("--timeout-scale", type=float, default=1)
    parser.add_argument("--fixed-addresses", action="store_true",
                        help="without address space randomisation (setarch -R), where possible")
    parser.add_argument("--only", action="append", default=[], metavar="NAME",
                        help="run only the tests of these names")
    parser.add_argument("--argument", action="append", default=[], metavar="TEXT",
                        help="an argument more for each program, such as the tag of its cases")
    parser.add_argument("--wrapper", metavar="PROGRAM",
                        help="a program that runs each test: its arguments are the test's command")
    parser.add_argument("--totals", help="append 'passed failed skipped LABEL' to this file")
    parser.add_argument("--failures", help="append a line for each failure to this file")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    wrapper = [os.path.abspath(arguments.wrapper)] if arguments.wrapper else []
    if arguments.fixed_addresses and shutil.which("setarch"):
        probe = ["setarch", "-R", "true"]
        if subprocess.run(probe, stderr=subprocess.DEVNULL, check=False).returncode == 0:
            wrapper += probe[:-1]
    total = Result()
    failures = []
    for test in declared_tests(arguments.directory):
        if arguments.only and test["name"] not in arguments.only:
            continue
        suites = suites_of(test)
        if arguments.suite and not suites & set(arguments.suite):
            continue
        if suites & set(arguments.no_suite):
            continue
        begin = time.monotonic()
        result, output = run(test, arguments, wrapper)
        seconds = time.monotonic() - begin
        if result.failed:
            print(output, end="" if output.endswith("\n") else "\n")
        skipped = f", {result.skipped} skipped" if result.skipped else ""
        print(f"{'FAIL' if result.failed else 'ok':4} {arguments.label:16} {test['name']:28} "
              f"{result.passed} passed, {result.failed} failed{skipped} in {seconds:.1f} s")
        if summary := summary_of_model(output):
            print(f"     {summary}")
        for problem in result.problems:
            print(f"     {problem}")
            failures.append(f"{test['name']}: {problem}")
        sys.stdout.flush()
        total.passed += result.passed
        total.failed += result.failed
        total.skipped += result.skipped
    if total.passed + total.failed + total.skipped == 0:
        print(f"FAIL {arguments.label}: no test was run")
        failures.append("no test was run")
        total.failed = 1
    if arguments.totals:
        with open(arguments.totals, "a", encoding="utf-8") as file:
            file.write(f"{total.passed} {total.failed} {total.skipped} {arguments.label}\n")
    if arguments.failures:
        with open(arguments.failures, "a", encoding="utf-8") as file:
            file.writelines(f"{arguments.label} {text}\n" for text in failures)
    skipped = f", {total.skipped} skipped" if total.skipped else ""
    print(f"{total.passed} passed, {total.failed} failed{skipped}")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
