#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs what scripts/demo shows where the kernel refuses io_uring, in short.

usage: demo_test.py WITHOUT_IO_URING SERVER
"""

import os
import re
import shutil
import subprocess
import sys

import kv_support as kv

DRIVER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts/demo_driver.py")


def the_demo_runs_on_epoll(without_io_uring, server):
    if not shutil.which("redis-benchmark"):
        raise kv.Skip("redis-benchmark is missing (Debian package redis-tools)")
    demo = subprocess.run(
        [without_io_uring, sys.executable, DRIVER, server, "--seconds", "1"],
        env={**os.environ, "WEFT_NETPOLL": "auto", "WEFT_MAXPROCS": "2"},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        timeout=5 * kv.PATIENCE, check=False)
    told = f"{demo.stdout}\n{demo.stderr}"
    kv.equal(demo.returncode, 0, told)
    lines = demo.stderr.splitlines()
    kv.equal(len(lines), 1, told)
    kv.equal("using epoll" in lines[0], True, told)
    kv.equal(len(re.findall(r"^\d+ tasks spawned, on epoll$", demo.stdout, re.MULTILINE)), 1, told)
    for mode in ("plain", "pipelined"):
        for test in ("SET", "GET", "INCR"):
            row = re.search(rf"^{mode} +{test} +([\d,]+) +([\d,]+) ", demo.stdout, re.MULTILINE)
            kv.equal(row is not None and row[1] != "0" and row[2] != "0", True, told)
    tasks_run = re.findall(r"^[01] +([\d,]+) ", demo.stdout, re.MULTILINE)
    kv.equal(len(tasks_run), 2, told)


def main():
    without_io_uring, server = map(os.path.abspath, sys.argv[1:])
    return kv.run_cases([("the demo where the kernel refuses io_uring",
                          lambda: the_demo_runs_on_epoll(without_io_uring, server))])


if __name__ == "__main__":
    sys.exit(main())
