#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests of scripts/run_tests.py: small programs that misbehave in all ways that it must notice. And
of scripts/add_totals.py, which adds up what that has counted."""

import importlib.util
import os
import subprocess
import sys
import tempfile
import types
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.dont_write_bytecode = True
SPEC = importlib.util.spec_from_file_location("run_tests", f"{ROOT}/scripts/run_tests.py")
run_tests = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(run_tests)

RECORD = 'say() { echo "$1" >>"$WEFT_TEST_RECORD"; }; '


def run_script(script, timeout=20, case_timeout=20, long=False, wrapper=(), extra=()):
    """Runs a shell script as a test program and returns (passed, failed, skipped, problems)."""
    test = {"cmd": ["sh", "-c", script], "env": {}, "timeout": timeout, "workdir": None,
            "protocol": "exitcode", "name": "script", "suite": ["weft"]}
    arguments = types.SimpleNamespace(env=["GIVEN=yes"], long=long, timeout_scale=1,
                                      case_timeout=case_timeout, directory="/",
                                      argument=list(extra))
    result, _ = run_tests.run(test, arguments, list(wrapper))
    return result.passed, result.failed, result.skipped, " ".join(result.problems)


class RunnerTest(unittest.TestCase):
    def test_a_wrapper_and_an_argument_more_are_given(self):
        self.assertEqual(run_script('test "$WRAPPED$0" = yesmore && echo 1 passed, 0 failed',
                                    wrapper=("env", "WRAPPED=yes"), extra=("more",)),
                         (1, 0, 0, ""))

    def test_counts_of_the_last_line_are_taken(self):
        self.assertEqual(run_script("echo 9 passed, 9 failed; echo 3 passed, 0 failed"),
                         (3, 0, 0, ""))

    def test_failed_and_skipped_are_counted(self):
        passed, failed, skipped, _ = run_script("echo 3 passed, 2 failed, 1 skipped; exit 1")
        self.assertEqual((passed, failed, skipped), (3, 2, 1))

    def test_a_program_without_a_closing_line_fails(self):
        self.assertEqual(run_script("echo all is well")[:2], (0, 1))

    def test_a_program_that_ran_no_test_fails(self):
        self.assertEqual(run_script("echo 0 passed, 0 failed")[:2], (0, 1))

    def test_a_status_that_contradicts_the_line_fails(self):
        self.assertEqual(run_script("echo 3 passed, 0 failed; exit 23")[:2], (3, 1))

    def test_a_failure_counts_although_the_status_is_zero(self):
        self.assertEqual(run_script("echo 3 passed, 1 failed")[:2], (3, 1))

    def test_a_crash_without_a_record_fails(self):
        passed, failed, _, problems = run_script("kill -SEGV $$")
        self.assertEqual((passed, failed), (0, 1))
        self.assertIn("SIGSEGV", problems)

    def test_a_crash_is_blamed_on_the_running_case(self):
        passed, failed, _, problems = run_script(
            RECORD + "say 'begin one'; say 'passed one'; say 'begin two'; kill -SEGV $$")
        self.assertEqual((passed, failed), (1, 1))
        self.assertIn("in case: two", problems)

    def test_a_crash_that_was_recorded_as_failed_counts_once(self):
        self.assertEqual(run_script(
            RECORD + "say 'begin one'; say 'failed one'; kill -ABRT $$")[:2], (0, 1))

    def test_an_exit_within_a_case_fails_whatever_its_status(self):
        for status in (0, 66):
            passed, failed, _, problems = run_script(RECORD + f"say 'begin one'; exit {status}")
            self.assertEqual((passed, failed), (0, 1))
            self.assertIn("in case: one", problems)

    def test_a_record_without_a_closing_line_fails(self):
        self.assertEqual(run_script(RECORD + "say 'begin one'; say 'passed one'")[:2], (1, 1))

    def test_a_hang_fails_after_the_timeout(self):
        passed, failed, _, problems = run_script("echo 3 passed, 0 failed; sleep 100", timeout=1)
        self.assertEqual((passed, failed), (0, 1))
        self.assertIn("hang", problems)

    def test_a_case_that_hangs_is_named(self):
        _, failed, _, problems = run_script(
            RECORD + "say 'begin one'; say 'passed one'; say 'begin two'; sleep 100",
            case_timeout=1)
        self.assertEqual(failed, 1)
        self.assertIn("in case: two", problems)

    def test_a_program_that_ignores_sigabrt_is_killed(self):
        _, failed, _, problems = run_script("trap '' ABRT; sleep 100; sleep 100", timeout=1)
        self.assertEqual(failed, 1)
        self.assertIn("hang", problems)

    def test_environment_is_passed(self):
        script = 'echo "${WEFT_TEST_LONG:-0} passed, 0 failed"; [ "$GIVEN" = yes ]'
        self.assertEqual(run_script(script, long=True), (1, 0, 0, ""))
        self.assertEqual(run_script(script)[:2], (0, 1))

    def test_executions_and_mutants_of_a_model_are_told(self):
        output = (
            "scope: two deep: ok, 1200 executions at 2 preemptions (exhaustive), 20000 random "
            "(seed 1), 99 steps, 0.10 s\n"
            "scope: stop: ok, 34 executions and 5 cut short at 2 preemptions, 0 stale reads "
            "(exhaustive), 1000 random (seed 1), 99 steps, 0.10 s\n"
            "scope: mutant 'no recheck': found: violation after 17 executions\n"
            "scope: mutants found 7/8\n"
            "9 passed, 1 failed\n")
        self.assertEqual(run_tests.summary_of_model(output),
                         "1234 executions in exhaustive searches and 21000 at random, "
                         "mutants found 7/8")
        self.assertIsNone(run_tests.summary_of_model("all is well\n9 passed, 1 failed\n"))


def add_totals(text):
    """Returns the status, the output as lines, and what went to the standard error stream."""
    with tempfile.NamedTemporaryFile("w", suffix=".totals") as file:
        file.write(text)
        file.flush()
        ended = subprocess.run([sys.executable, f"{ROOT}/scripts/add_totals.py", file.name],
                               capture_output=True, text=True, check=False)
    return ended.returncode, ended.stdout.splitlines(), ended.stderr


class TotalsTest(unittest.TestCase):
    def test_skipped_cases_stand_on_the_line_before_the_last_one(self):
        status, lines, _ = add_totals("3 0 1 debug/io_uring\n4 0 2 debug/epoll (of two)\n")
        self.assertEqual(status, 0)
        self.assertEqual(lines[-2:], ["3 skipped", "7 passed, 0 failed"])
        self.assertEqual(lines[-3].split(maxsplit=3)[:3], ["debug/epoll", "(of", "two)"])

    def test_a_failure_in_any_configuration_decides(self):
        status, lines, _ = add_totals("3 1 0 debug\n4 0 0 release\n")
        self.assertEqual((status, lines[-1]), (1, "7 passed, 1 failed"))
        self.assertNotIn("skipped", lines[-2].replace("0 skipped", ""))

    def test_that_nothing_has_run_is_a_failure(self):
        for text in ("", "0 0 5 debug\n"):
            status, lines, errors = add_totals(text)
            self.assertEqual((status, lines[-1]), (1, "0 passed, 1 failed"))
            self.assertIn("no test was run", errors)


if __name__ == "__main__":
    outcome = unittest.main(exit=False, verbosity=1).result
    bad = len(outcome.failures) + len(outcome.errors)
    print(f"{outcome.testsRun - bad} passed, {bad} failed")
    sys.exit(bad != 0)
