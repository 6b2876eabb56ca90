# SPDX-License-Identifier: MIT
"""The suite channel: what values handed from task to task, and a mutex that tasks share, cost,
against Go where it is installed."""

import os

from measuring import build_go_program, measure_cases

CASES = ("ping_pong", "buffered_1_1", "buffered_5_5", "select_2", "mutex_100")
UNITS = {"ns_per_op": "ns", "cpu_ns_per_op": "ns"}


def run(arguments, results, rounds):
    directory = arguments.build_directory / "benchmarks" / "channel"
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "channel", "channel.go")
    programs = {"weft": directory / "channel_bench",
                "go": build_go_program("channel", source, directory)}
    measure_cases("channel", CASES, UNITS, programs, arguments, results, rounds)
