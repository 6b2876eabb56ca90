# SPDX-License-Identifier: MIT
"""The suite channel: what values handed from task to task, and a mutex that tasks share, cost,
against Go where it is installed."""

import json
import os

from measuring import build_go_program, progress, run_program, weft_environment

CASES = ("ping_pong", "buffered_1_1", "buffered_5_5", "select_2", "mutex_100")
UNITS = {"ns_per_op": "ns", "cpu_ns_per_op": "ns"}


def run(arguments, results, rounds):
    directory = arguments.build_directory / "benchmarks" / "channel"
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "channel", "channel.go")
    programs = {"weft": directory / "channel_bench",
                "go": build_go_program("channel", source, directory)}
    available = sorted(os.sched_getaffinity(0))
    minimum = 100 if arguments.quick else 200
    for index in range(rounds):
        for case in CASES:
            for count in arguments.procs:
                for runtime, program in programs.items():
                    if program is None:
                        continue
                    progress(f"channel: round {index + 1} of {rounds}, {case}, {count} processors")
                    environment = {**weft_environment(count), "GOMAXPROCS": str(count)}
                    done = run_program([program, f"--case={case}", f"--minimum-ms={minimum}"],
                                       set(available[:count]), env=environment)
                    line = json.loads(done.stdout)
                    for metric, unit in UNITS.items():
                        results.add("channel", case, runtime, count, metric, unit, line[metric])
