#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs a libFuzzer program for a few seconds, from a few starting points, as one test case.

usage: run_fuzzer.py PROGRAM [SECONDS]
"""

import os
import subprocess
import sys
import tempfile

# Two bytes that choose the pieces, then a stream.
STARTING_POINTS = [
    b"\x00\x00*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n",
    b"\x05\x01*1\r\n$4\r\nPING\r\nPING\r\n*0\r\n",
    b"\x01\x02set \"a \\x41\\n\" 'it\\'s' b\"c\"\r\n",
    b"\x1f\x03*3\r\n$0\r\n\r\n$-1\r\n",
]
WORDS = ["*", "$", "\\x0d\\x0a", "*1\\x0d\\x0a", "$0\\x0d\\x0a\\x0d\\x0a", "$-1", "\\x22", "'",
         "\\\\x"]


def main():
    seconds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    with tempfile.TemporaryDirectory(prefix="weft-fuzz-") as directory:
        corpus = os.path.join(directory, "corpus")
        os.mkdir(corpus)
        for number, text in enumerate(STARTING_POINTS):
            with open(os.path.join(corpus, str(number)), "wb") as file:
                file.write(text)
        dictionary = os.path.join(directory, "words")
        with open(dictionary, "w", encoding="ascii") as file:
            file.writelines(f'"{word}"\n' for word in WORDS)
        process = subprocess.run(
            [sys.argv[1], corpus, f"-max_total_time={seconds}", "-max_len=400", "-timeout=10",
             f"-dict={dictionary}", "-print_final_stats=1",
             f"-artifact_prefix={directory}/"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )
    output = process.stdout.decode("utf-8", "replace")
    if process.returncode != 0:
        print(output)
    else:
        print("\n".join(line for line in output.splitlines() if "stat::" in line or "DONE" in line))
    failed = int(process.returncode != 0)
    print(f"{1 - failed} passed, {failed} failed")
    return failed


if __name__ == "__main__":
    sys.exit(main())
