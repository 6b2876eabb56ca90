# SPDX-License-Identifier: MIT
"""The suite sched: what the scheduler's basic steps cost."""

import os
import re

from measuring import measure_cases, progress, run_program, weft_environment

CASES = ("spawn_join_one", "spawn_join_batch", "yield_1", "yield_1000", "ping_pong")
UNITS = {"ns_per_op": "ns", "cpu_ns_per_op": "ns", "wakes_per_op": "1"}


def run(arguments, results, rounds):
    program = arguments.build_directory / "benchmarks" / "sched" / "sched_bench"
    available = sorted(os.sched_getaffinity(0))
    for count in arguments.procs:
        if count > len(available):
            print(f"sched: {count} processors on {len(available)} CPUs compete with each other.")
    measure_cases("sched", CASES, UNITS, {"weft": program}, arguments, results, rounds)
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
    for case in CASES:
        progress(f"sched: instructions, {case}")
        try:
            short, long = (instructions_of(program, case, operations, {available[0]})
                           for operations in (few, many))
        except FileNotFoundError:
            print("sched: valgrind is not there, so instructions are not counted.")
            return
        results.add("sched", case, "weft", 1, "instructions_per_op", "1",
                    (long - short) / (many - few))
