#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Shows that the conformance tests find faults in the scheduler.

For each mutant of scheduler.mutants (the format is that of test/model/run_mutants.py, with a line
'by FILE FILTER' that names the tests) the changed file is copied to an overlay directory, the
objects that depend on it are compiled again with the commands of this build directory, and linked
with the other objects as they are. The tests named must pass without the mutant, and one of them
must fail, crash or hang with it. Each mutant is one test case.
"""

import argparse
import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "model"))
from run_mutants import overlay, read_mutants  # noqa: E402


def output_of(command, **options):
    run = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **options
    )
    return run.returncode, run.stdout.decode("utf-8", "replace")


class Build:
    """What the build directory knows: commands, dependencies, how the test program is linked."""

    def __init__(self, arguments):
        self.root = arguments.build
        self.source = arguments.source
        self.program = arguments.program
        with open(os.path.join(self.root, "compile_commands.json"), encoding="utf-8") as file:
            self.commands = {entry["output"]: entry for entry in json.load(file)}
        self.dependencies = self.read_dependencies()
        link = self.ninja("-t", "commands", os.path.relpath(self.program, self.root))
        self.link = shlex.split(link.strip().splitlines()[-1])
        if not any(word.endswith("libweft.a") for word in self.link):
            raise SystemExit("weft is not linked as a static library; use -Ddefault_library=static")

    def ninja(self, *words):
        status, text = output_of(["ninja", "-C", self.root, *words])
        if status != 0:
            raise SystemExit(f"ninja {' '.join(words)} failed:\n{text}")
        return text

    def read_dependencies(self):
        dependencies, output = {}, None
        for line in self.ninja("-t", "deps").splitlines():
            if line.startswith("    "):
                path = os.path.normpath(os.path.join(self.root, line.strip()))
                dependencies[output].add(path)
            elif ": #deps" in line:
                output = line.split(":", 1)[0]
                dependencies[output] = set()
        return dependencies

    def object_of_test(self, name):
        path = os.path.normpath(os.path.join(self.source, "test", "conformance", name))
        for output, entry in self.commands.items():
            if os.path.normpath(os.path.join(self.root, entry["file"])) == path:
                return output
        raise SystemExit(f"no object is made of {path}")

    def dependents(self, changed, test_object):
        """The objects of the library, and the test's, that have to be compiled again."""
        paths = {os.path.join(self.source, file) for file in changed}
        return [
            output
            for output in self.commands
            if ("libweft.a.p" in output or output == test_object)
            and self.dependencies.get(output, set()) & paths
        ]


class Checker:
    def __init__(self, build, limit):
        self.build = build
        self.limit = limit

    def compile(self, output, test_object, changed, directory):
        entry = self.build.commands[output]
        words = shlex.split(entry["command"])
        source = os.path.normpath(os.path.join(self.build.root, entry["file"]))
        relative = os.path.relpath(source, self.build.source)
        target = os.path.join(directory, output.replace("/", "-"))
        command = [words[0], "-I" + directory, "-I" + os.path.join(directory, "include")]
        skipped = False
        for word in words[1:]:
            if skipped:
                skipped = False
            elif word in ("-o", "-MQ", "-MF"):
                skipped = True
            elif word == entry["file"]:
                command.append(os.path.join(directory, relative) if relative in changed else word)
            elif word != "-MD":
                command.append(word)
        # The precompiled header of the tests allows no other level; the library is optimised, so
        # that mutants which save time do so here too.
        if output != test_object:
            command.append("-O1")
        status, text = output_of(command + ["-w", "-o", target], cwd=self.build.root)
        if status != 0:
            raise ValueError(f"does not compile:\n{text[-2000:]}")
        return target

    def link(self, objects, directory):
        # The other objects of the library stand in for its archive: of an archive, the linker might
        # take the unchanged twin of a changed object as well, for one symbol that only it has.
        replaced = {os.path.basename(path) for path in objects}
        others = [output for output in self.build.commands
                  if "libweft.a.p" in output and output.replace("/", "-") not in replaced]
        program = os.path.join(directory, "tests")
        command, skipped = [], False
        for word in self.build.link:
            if skipped:
                skipped = False
            elif word == "-o":
                skipped = True
            elif word.endswith("libweft.a"):
                command += others
            elif not word.endswith(".o"):
                command.append(word)
        status, text = output_of(
            [command[0], *objects, *command[1:], "-o", program], cwd=self.build.root
        )
        if status != 0:
            raise ValueError(f"does not link:\n{text[-2000:]}")
        return program

    def run(self, program, test_filter):
        """Returns (how it failed, or None; the output)."""
        # The failures of a mutant are no results of this test.
        environment = {name: value for name, value in os.environ.items()
                       if name != "WEFT_TEST_RECORD"}
        try:
            status, text = output_of([program, "--abort", test_filter], timeout=self.limit,
                                     env=environment)
        except subprocess.TimeoutExpired:
            return f"does not end within {self.limit} s", ""
        if status == 0 and re.search(r"^[1-9]\d* passed, 0 failed", text, re.MULTILINE):
            return None, text
        failed = re.search(r"^-{70,}\n(.*)\n", text, re.MULTILINE)
        if status == 1 and failed:
            return failed[1].strip(), text
        if status < 0:
            return f"ends by signal {-status}", text
        return "fails otherwise", text

    def check(self, mutant):
        """Returns (found, text)."""
        test_file, test_filter = mutant.tests
        try:
            test_object = self.build.object_of_test(test_file)
            with tempfile.TemporaryDirectory(prefix="weft-mutant-") as directory:
                changed = overlay(self.build.source, mutant, directory)
                objects, test_compiled = [], test_object
                for output in self.build.dependents(changed, test_object):
                    compiled = self.compile(output, test_object, changed, directory)
                    if output == test_object:
                        test_compiled = compiled
                    else:
                        objects.append(compiled)
                if not objects:
                    return False, "no object depends on what is changed"
                program = self.link([test_compiled] + objects, directory)
                failure, text = self.run(program, test_filter)
        except (OSError, ValueError) as error:
            return False, str(error)
        if failure == "fails otherwise":
            return False, f"{failure}:\n{text[-2000:]}"
        return failure is not None, failure or f"survived {test_filter}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", required=True, help="the build directory")
    parser.add_argument("--source", required=True, help="the root of the source tree")
    parser.add_argument("--program", required=True, help="the test program of the build")
    parser.add_argument("--mutants", required=True, help="the list of mutants")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=60, help="seconds for one mutant's run")
    parser.add_argument("--only", help="run only the mutants with this text in their name")
    arguments = parser.parse_args()

    mutants = read_mutants(arguments.mutants)
    if arguments.only:
        mutants = [mutant for mutant in mutants if arguments.only in mutant.name]
    checker = Checker(Build(arguments), arguments.limit)
    passed = failed = 0
    for test_filter in sorted({mutant.tests[1] for mutant in mutants}):
        failure, text = checker.run(arguments.program, test_filter)
        if failure is not None:
            print(f"without a mutant, {test_filter}: {failure}\n{text[-2000:]}")
            failed += 1
    found_count = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for mutant, (found, text) in zip(mutants, pool.map(checker.check, mutants)):
            word = "found" if found else "NOT FOUND"
            print(f"mutant '{mutant.name}': {word}: {text}", flush=True)
            found_count += found
    print(f"mutants found {found_count}/{len(mutants)}")
    passed += found_count
    failed += len(mutants) - found_count
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
