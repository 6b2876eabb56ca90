#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the model of one protocol, then shows that the model can fail.

A model that never fails proves nothing. So each model has a list of mutants: small faults to be
planted in the header that it checks, every one of which it must find. For each mutant the header
is copied to an overlay include directory with the fault in it, the model is compiled against that,
and run; it must report a violation. A mutant that survives, does not compile, runs too long, or
whose text is not found exactly once, fails.

A list (test/model/SUBJECT.mutants) consists of entries, and of lines that start with '#':

    == name of the mutant
    in weft/detail/sched/local_queue.hpp
    - the text to be replaced, which occurs exactly once in that file;
    - white space is compared as white space, whatever its length
    + the replacement

An entry may have several groups of '-' and '+' lines, and several 'in' lines; all are applied.
(The mutants of test/conformance/, which have this format too, also name the tests that find them:
'by FILE FILTER'.)
Each scenario of the model and each mutant is one test case.
"""

import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile


class Mutant:
    def __init__(self, name, line):
        self.name = name
        self.line = line
        self.edits = []  # (file, search, replacement)
        self.tests = None  # (file, filter)


def read_mutants(path):
    mutants = []
    file = None
    search, replacement = [], []

    def flush():
        nonlocal search, replacement
        if search or replacement:
            if not mutants or file is None or not search:
                raise ValueError(f"{path}: an edit without '==', 'in' or '-' lines")
            mutants[-1].edits.append((file, "\n".join(search), "\n".join(replacement)))
        search, replacement = [], []

    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            line = line.rstrip("\n")
            if line.startswith("== "):
                flush()
                file = None
                mutants.append(Mutant(line[3:].strip(), number))
            elif line.startswith("in "):
                flush()
                file = line[3:].strip()
            elif line.startswith("by "):
                file_name, _, test_filter = line[3:].strip().partition(" ")
                mutants[-1].tests = (file_name, test_filter)
            elif line.startswith("- "):
                if replacement:
                    flush()
                search.append(line[2:])
            elif line.startswith("+ ") or line == "+":
                replacement.append(line[2:])
            elif line.strip() and not line.startswith("#"):
                raise ValueError(f"{path}:{number}: cannot read {line!r}")
    flush()
    for mutant in mutants:
        if not mutant.edits:
            raise ValueError(f"{path}:{mutant.line}: {mutant.name}: nothing is changed")
    return mutants


def apply(text, search, replacement):
    """Returns the text with the only occurrence of `search` replaced."""
    pattern = r"\s+".join(re.escape(word) for word in search.split())
    found = list(re.finditer(pattern, text))
    if len(found) != 1:
        raise ValueError(f"the text occurs {len(found)} times, not once: {search!r}")
    return text[: found[0].start()] + replacement + text[found[0].end() :]


def overlay(root, mutant, directory):
    """Writes the files below `root` that the mutant changes, changed, to `directory`. Returns them."""
    changed = {}
    for file, search, replacement in mutant.edits:
        if file not in changed:
            with open(os.path.join(root, file), encoding="utf-8") as source:
                changed[file] = source.read()
        changed[file] = apply(changed[file], search, replacement)
    for file, text in changed.items():
        target = os.path.join(directory, file)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "w", encoding="utf-8") as copy:
            copy.write(text)
    return changed


class Checker:
    def __init__(self, arguments):
        self.arguments = arguments

    def compile(self, directory, program):
        command = self.arguments.compiler.split() + [
            "-std=c++20", "-O1", "-w",
            "-I" + directory, "-I" + self.arguments.include, "-I" + self.arguments.test_include,
            self.arguments.source, self.arguments.explorer, "-o", program,
        ]
        return subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300
        )

    def check(self, mutant):
        """Returns (found, text)."""
        with tempfile.TemporaryDirectory(prefix="weft-mutant-") as directory:
            try:
                overlay(self.arguments.include, mutant, directory)
            except (OSError, ValueError) as error:
                return False, str(error)
            program = os.path.join(directory, "model")
            built = self.compile(directory, program)
            if built.returncode != 0:
                return False, "does not compile:\n" + built.stdout.decode("utf-8", "replace")
            try:
                run = subprocess.run(
                    [program, "--stop-at-violation", "yes"],
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=self.arguments.limit,
                )
            except subprocess.TimeoutExpired:
                return False, f"was not found within {self.arguments.limit} s"
        output = run.stdout.decode("utf-8", "replace")
        match = re.search(r"^violation: (.*)$", output, re.MULTILINE)
        if run.returncode == 1 and match:
            after = re.search(r"violation after (\d+ (?:random )?executions)", output)
            return True, match[1] + (f" (after {after[1]})" if after else "")
        return False, f"survived (exit status {run.returncode}):\n{output[-2000:]}"


def record(name, passed):
    path = os.environ.get("WEFT_TEST_RECORD")
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"begin {name}\n{'passed' if passed else 'failed'} {name}\n")


def run_model(arguments):
    """Runs the model as it is. Returns (passed, failed)."""
    command = [arguments.model]
    if os.environ.get("WEFT_TEST_LONG"):
        command += ["--random", "2000000"]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output = run.stdout.decode("utf-8", "replace")
    print(output, end="", flush=True)
    totals = re.search(r"^(\d+) passed, (\d+) failed$", output, re.MULTILINE)
    name = f"model {arguments.subject}"
    if not totals or (run.returncode == 0) != (totals[2] == "0"):
        print(f"{name}: exit status {run.returncode} does not fit the output")
        record(name, False)
        return 0, 1
    line = rf"^{re.escape(arguments.subject)}: (.*?): (ok|FAILED),"
    for scenario in re.finditer(line, output, re.MULTILINE):
        record(f"{name}: {scenario[1]}", scenario[2] == "ok")
    return int(totals[1]), int(totals[2])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("subject")
    parser.add_argument("--model", required=True, help="the model's executable")
    parser.add_argument("--source", required=True, help="the model's source file")
    parser.add_argument("--mutants", required=True, help="the list of mutants")
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--explorer", required=True, help="the library of the explorer")
    parser.add_argument("--include", required=True, help="the include directory of weft")
    parser.add_argument("--test-include", required=True)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=300, help="seconds for one mutant's run")
    parser.add_argument("--only", help="run only the mutants with this text in their name")
    parser.add_argument("--at-least", type=int, default=5, help="mutants that a list must have")
    arguments = parser.parse_args()

    passed, failed = run_model(arguments)
    mutants = read_mutants(arguments.mutants)
    if len(mutants) < arguments.at_least:
        print(f"{arguments.subject}: only {len(mutants)} mutants")
        failed += 1
    if arguments.only:
        mutants = [mutant for mutant in mutants if arguments.only in mutant.name]
    checker = Checker(arguments)
    found_count = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for mutant, (found, text) in zip(mutants, pool.map(checker.check, mutants)):
            word = "found" if found else "NOT FOUND"
            print(f"{arguments.subject}: mutant '{mutant.name}': {word}: {text}", flush=True)
            record(f"mutant of {arguments.subject}: {mutant.name}", found)
            found_count += found
    print(f"{arguments.subject}: mutants found {found_count}/{len(mutants)}")
    passed += found_count
    failed += len(mutants) - found_count
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
