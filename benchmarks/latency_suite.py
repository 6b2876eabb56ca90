# SPDX-License-Identifier: MIT
"""The suite latency: how long something that is ready waits, against Go where it is installed."""

import json
import os
import statistics

from measuring import Failure, build_go_program, progress, run_program, weft_environment

STUCK_ALL_BUSY = ("stuck_ready_all_busy", "stuck_timer_all_busy", "stuck_socket_all_busy")
STUCK = ("stuck_ready", "stuck_timer", "stuck_socket") + STUCK_ALL_BUSY
CASES = ("hog_echo", "busy_socket", "spawn_chain") + STUCK + ("sleep_50us", "blocking_ticker")
# What says something only where there is a second processor.
TWO_PROCESSORS = ("busy_socket",) + STUCK_ALL_BUSY
QUICK_ROUNDS = {**dict.fromkeys(STUCK, 15), "blocking_ticker": 1000}
METRICS = ("p50_us", "p90_us", "p99_us", "p999_us", "max_us")
# By case: the metrics and what they may be.
AIMS = {
    "hog_echo": {"p50_us": 500},
    "busy_socket": {"p50_us": 1_000, "p99_us": 2_000},
    "spawn_chain": {"p99_us": 10_000},
    "sleep_50us": {"p50_us": 120},
    "blocking_ticker": {"p99_us": 500},
}
# Of a processor that is kept, with another one idle beside it, and with none.
STUCK_BESIDE_IDLE = {"p50_us": 2_000, "max_us": 50_000}
STUCK_ALONE = {"p50_us": 15_000, "p90_us": 20_000, "max_us": 50_000}
TICKER_ABOVE_THREAD_US = 2_000


def run(arguments, results, rounds):
    directory = arguments.build_directory / "benchmarks" / "latency"
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "latency", "latency.go")
    programs = [directory / "latency_bench", build_go_program("latency", source, directory)]
    available = set(os.sched_getaffinity(0))
    for index in range(rounds):
        for case in CASES:
            for count in arguments.procs:
                if count == 1 and case in TWO_PROCESSORS:
                    continue
                for program in filter(None, programs):
                    progress(f"latency: round {index + 1} of {rounds}, {case}, {count} processors")
                    environment = {**weft_environment(count), "GOMAXPROCS": str(count)}
                    command = [program, f"--case={case}"]
                    if arguments.quick and case in QUICK_ROUNDS:
                        command.append(f"--rounds={QUICK_ROUNDS[case]}")
                    done = run_program(command, available, env=environment)
                    add_lines(results, case, count, done.stdout)


def add_lines(results, case, count, text):
    for line in map(json.loads, text.splitlines()):
        if line["samples"] == 0:
            raise Failure(f"latency: {case} gave no figure")
        for metric in METRICS:
            results.add("latency", case, line["runtime"], count, metric, "us", line[metric])


def aims_of(case, count):
    if case in STUCK:
        return STUCK_ALONE if count == 1 or case in STUCK_ALL_BUSY else STUCK_BESIDE_IDLE
    return AIMS[case]


def print_verdict(results, counts):
    """What each aim asks for and what was found: the median over the rounds."""
    print()
    for case in CASES:
        for count in counts:
            for metric, limit in aims_of(case, count).items():
                verdict(results, case, count, metric, limit)
    for count in counts:
        beside = results.of("latency", "blocking_ticker", "thread", count, "p999_us")
        if beside:
            limit = statistics.median(beside) + TICKER_ABOVE_THREAD_US
            verdict(results, "blocking_ticker", count, "p999_us", limit)


def verdict(results, case, count, metric, limit):
    values = results.of("latency", case, "weft", count, metric)
    if not values:
        return
    # A bound that must never be passed is held against the worst round.
    found = max(values) if metric == "max_us" else statistics.median(values)
    word = "met" if found <= limit else "MISSED"
    print(f"latency {case}, {count} P: {metric} {found:,.0f}, aim {limit:,.0f}: {word}")
