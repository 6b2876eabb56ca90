#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The example echo_server serves on after its file descriptors were used up.

usage: echo_server_test.py ECHO_SERVER
"""

import os
import re
import resource
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kv"))
import kv_support  # pylint: disable=wrong-import-position

DESCRIPTORS = 64
CLIENTS = 100


def echo(client):
    client.sendall(b"hello")
    kv_support.equal(client.recv(16), b"hello", "echo")


def descriptors_used_up(program):
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))

    with subprocess.Popen([program, "127.0.0.1:0"], stdin=subprocess.DEVNULL, preexec_fn=limit,
                          stdout=subprocess.PIPE) as server:
        try:
            line = server.stdout.readline().decode()
            port = int(re.fullmatch(r"listening on \S+:(\d+)\n", line)[1])
            clients = [socket.create_connection(("127.0.0.1", port), timeout=kv_support.PATIENCE)
                       for _ in range(CLIENTS)]
            echo(clients[0])
            directory = f"/proc/{server.pid}/fd"
            kv_support.wait_until("all descriptors are used, or the server has ended", lambda: (
                server.poll() is not None or len(os.listdir(directory)) == DESCRIPTORS))
            for client in clients[:60]:
                client.close()
            # Those that waited in the queue are served when others have left.
            for client in clients[60:]:
                echo(client)
                client.close()
        finally:
            server.kill()


if __name__ == "__main__":
    sys.exit(kv_support.run_cases([
        ("echo server: descriptors that are used up are survived",
         lambda: descriptors_used_up(os.path.abspath(sys.argv[1]))),
    ]))
