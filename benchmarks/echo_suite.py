# SPDX-License-Identifier: MIT
"""The suite echo: CPU time and latency of a TCP echo server, against servers written by hand."""

import contextlib
import json
import os
import re
import select
import statistics
import subprocess

from measuring import Failure, pinned, progress, run_program, weft_environment

CASES = {"c1": 1, "c32": 32, "c256": 256}
RUNTIMES = ("weft", "epoll", "liburing")
UNITS = {
    "cpu_us_per_req": "us",
    "req_per_s": "1/s",
    "p50_us": "us",
    "p99_us": "us",
    "waits_per_req": "1",
}


def choose_processors():
    available = sorted(os.sched_getaffinity(0))
    if len(available) > 1:
        return available[0], available[1]
    print("Only one processor may be used: server and client share it, so that req_per_s and"
          " the latencies say little and the CPU times include each other's cache misses.")
    return available[0], available[0]


@contextlib.contextmanager
def server(program, processor):
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


def measure_round(directory, runtimes, connections, slices, processors):
    """All servers at once, each driven in turn for a short slice; those not driven sleep."""
    server_processor, client_processor = processors
    with contextlib.ExitStack() as stack:
        command = [directory / "echo_client", f"--connections={connections}",
                   f"--slices={slices}"]
        for runtime in runtimes:
            program = directory / f"echo_{runtime}_server"
            process, port = stack.enter_context(server(program, server_processor))
            command.append(f"{runtime}:{port}:{process.pid}")
        return [json.loads(line) for line in
                run_program(command, {client_processor}).stdout.splitlines()]


def add_ratios(results, case, rounds):
    """What weft takes as a multiple of the better server that was written by hand.

    Which one is better is decided once, by the medians over all rounds. To take the lower of two
    figures in each round would favour whichever the noise spared there.
    """
    by_hand = [name for name in ("epoll", "liburing") if name in rounds[0]]
    if "weft" not in rounds[0] or not by_hand:
        return
    better = min(by_hand, key=lambda name: statistics.median(each[name] for each in rounds))
    for each in rounds:
        results.add("echo", case, "weft", 1, "cpu_ratio", "1", each["weft"] / each[better])


def run(arguments, results, rounds):
    processors = choose_processors()
    directory = arguments.build_directory / "benchmarks" / "echo"
    slices = 10 if arguments.quick else 20
    taken = {case: [] for case in CASES}
    for index in range(rounds):
        # Whoever follows whom must not decide, so each round begins with another one.
        first = index % len(arguments.runtimes)
        order = arguments.runtimes[first:] + arguments.runtimes[:first]
        for case, connections in CASES.items():
            progress(f"echo: round {index + 1} of {rounds}, {case}")
            figures = {}
            for line in measure_round(directory, order, connections, slices, processors):
                figures[line["name"]] = line
            for runtime in arguments.runtimes:
                for metric, unit in UNITS.items():
                    results.add("echo", case, runtime, 1, metric, unit, figures[runtime][metric])
            taken[case].append({name: line["cpu_us_per_req"] for name, line in figures.items()})
    for case, figures in taken.items():
        add_ratios(results, case, figures)


def print_verdict(results):
    print()
    for case in CASES:
        ratios = results.of("echo", case, "weft", 1, "cpu_ratio")
        if ratios:
            print(f"echo {case}: weft takes {statistics.median(ratios):.3f} times the CPU time of"
                  f" the better server written by hand ({min(ratios):.3f} to {max(ratios):.3f}"
                  f" in {len(ratios)} rounds)")
