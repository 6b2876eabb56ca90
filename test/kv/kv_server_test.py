#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests the key-value server as a process, by real clients over loopback.

usage: kv_server_test.py SERVER [--sanitizer=LIST] [CASE...]

Runs on the netpoll backend that WEFT_NETPOLL names, and on both where it names none. With `auto` the
server chooses, which matters where the kernel refuses io_uring.
--sanitizer names the sanitizers that the server was built with, if any: loads become smaller.
CASE is the name of a function in CASES.
"""

import contextlib
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import kv_support as kv
import redis_comparison
from kv_support import Client, Server, Skip, encode, equal, wait_until

BACKENDS = ("io_uring", "epoll")
CHOICE = "auto"


class Environment:
    """What each case is given: how to start a server, and how much load is right."""

    def __init__(self, program, backend, sanitizers):
        self.program = program
        self.backend = backend
        self.sanitizers = sanitizers

    def server(self, *arguments, **options):
        return Server(self.program, self.backend, arguments, **options)

    def scaled(self, number):
        return number // 10 if self.sanitizers else number


def tool(name):
    path = shutil.which(name)
    if not path:
        raise Skip(f"{name} is missing (Debian package redis-tools)")
    return path


def redis_cli(server, *words):
    """What redis-cli prints for a command, with types."""
    process = subprocess.run(
        [tool("redis-cli"), "--no-raw", "-h", server.host, "-p", str(server.port), *words],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=kv.PATIENCE, check=False)
    return process.stdout.decode().strip()


def benchmark(server, *arguments):
    """Runs redis-benchmark; returns requests per second by test. Fails at any error."""
    process = subprocess.run(
        [tool("redis-benchmark"), "-h", server.host, "-p", str(server.port), "--csv", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=5 * kv.PATIENCE, check=False)
    text = process.stdout.decode()
    rows = dict(re.findall(r'^"([^"]+)","([\d.]+)",', text, re.MULTILINE))
    if process.returncode != 0 or re.search("error|warning", text, re.IGNORECASE):
        raise AssertionError(f"redis-benchmark: status {process.returncode}: {text[-2000:]}")
    return {test: float(rate) for test, rate in rows.items()}


# Each line: the words of a command, then what redis-cli prints.
CONVERSATION = [
    (["PING"], "PONG"),
    (["PING", "hello world"], '"hello world"'),
    (["ECHO", "a\tb"], '"a\\tb"'),
    (["GET", "key"], "(nil)"),
    (["SET", "key", "value"], "OK"),
    (["GET", "key"], '"value"'),
    (["set", "key", "it's", "XX"], "OK"),
    (["SET", "key", "v", "NX"], "(nil)"),
    (["TTL", "key"], "(integer) -1"),
    (["EXPIRE", "key", "100"], "(integer) 1"),
    (["TTL", "key"], "(integer) 100"),
    (["SET", "timed", "v", "EX", "50"], "OK"),
    (["TTL", "timed"], "(integer) 50"),
    (["SET", "timed", "v", "PX", "20000"], "OK"),
    (["TTL", "timed"], "(integer) 20"),
    (["TTL", "missing"], "(integer) -2"),
    (["EXISTS", "key", "timed", "missing"], "(integer) 2"),
    (["INCR", "counter"], "(integer) 1"),
    (["INCR", "counter"], "(integer) 2"),
    (["INCR", "key"], "(error) ERR value is not an integer or out of range"),
    (["DBSIZE"], "(integer) 3"),
    (["DEL", "key", "missing"], "(integer) 1"),
    (["DBSIZE"], "(integer) 2"),
    (["CONFIG", "GET", "save"], '1) "save"\n2) ""'),
    (["CONFIG", "GET", "appendonly"], '1) "appendonly"\n2) "no"'),
    (["COMMAND", "COUNT"], "(integer) 15"),
    (["COMMAND", "INFO", "nothing"], "1) (nil)"),
    (["GET"], "(error) ERR wrong number of arguments for 'get' command"),
    (["GET", "a", "b"], "(error) ERR wrong number of arguments for 'get' command"),
    (["SET", "k", "v", "EX"], "(error) ERR syntax error"),
    (["SET", "k", "v", "EX", "0"], "(error) ERR invalid expire time in 'set' command"),
    (["SET", "k", "v", "PX", "x"], "(error) ERR value is not an integer or out of range"),
    (["EXPIRE", "timed", "x"], "(error) ERR value is not an integer or out of range"),
    (["NOTHING", "a", "b"],
     "(error) ERR unknown command 'NOTHING', with args beginning with: 'a' 'b'"),
    (["CONFIG", "SET", "a", "b"], "(error) ERR unknown subcommand 'SET'. Try CONFIG HELP."),
    (["FLUSHALL"], "OK"),
    (["DBSIZE"], "(integer) 0"),
    (["QUIT"], "OK"),
]


def every_command_through_redis_cli(environment):
    with environment.server() as server:
        for words, expected in CONVERSATION:
            equal(redis_cli(server, *words), expected, " ".join(words))
        information = redis_cli(server, "INFO")
        for part in ("# Server", "# Clients", "# Stats", "# Keyspace", "# Weft"):
            if part not in information:
                raise AssertionError(f"INFO lacks {part}: {information}")
        if '"get"' not in redis_cli(server, "COMMAND"):
            raise AssertionError("COMMAND does not show GET")
        if '"summary"' not in redis_cli(server, "COMMAND", "DOCS", "get"):
            raise AssertionError("COMMAND DOCS does not describe GET")
        told = server.information("weft")["netpoll"]
        if environment.backend == CHOICE:
            equal(told in BACKENDS, True, f"backend {told}")
        else:
            equal(told, environment.backend, "backend")


def benchmark_runs_without_error(environment):
    with environment.server() as server:
        for pipeline in ("1", "16"):
            rates = benchmark(server, "-t", "ping,set,get,incr", "-n",
                              str(environment.scaled(20_000)), "-P", pipeline, "-r", "1000")
            tests = {"PING_INLINE", "PING_MBULK", "SET", "GET", "INCR"}
            equal(set(rates), tests, f"tests with -P {pipeline}")
            if min(rates.values()) <= 0:
                raise AssertionError(f"a test made no progress: {rates}")


def keys_expire_by_themselves(environment):
    with environment.server("--shards", "4") as server, Client(server) as client:
        count = 1000
        # Later expiries first, so that each shard's task sleeps far too long when the others come.
        for lifetime in ("1000000", "50"):
            client.send(b"".join(
                encode("SET", f"{lifetime}-{number}", "v", "PX", lifetime)
                for number in range(count)))
            for _ in range(count):
                equal(client.reply(), b"+OK", "SET")
        # DBSIZE looks at no key, so only the expiry by timers can bring it down.
        wait_until("expired keys are removed", lambda: client("DBSIZE") == b":%d" % count)
        equal(client("GET", "50-1"), b"$-1", "an expired key")
        equal(client("GET", "1000000-1"), b"v", "a key that lives")
        equal(server.information("stats")["expired_keys"], str(count), "expired_keys")


MALFORMED = [
    (b"*x\r\n", b"invalid multibulk length"),
    (b"*-x\r\n", b"invalid multibulk length"),
    (b"*1048577\r\n", b"invalid multibulk length"),
    (b"*99999999999999999999\r\n", b"invalid multibulk length"),
    (b"*1\r\nfoo\r\n", b"expected '$', got 'f'"),
    (b"*2\r\n$3\r\nGET\r\n:1\r\n", b"expected '$', got ':'"),
    (b"*1\r\n$-1\r\n", b"invalid bulk length"),
    (b"*1\r\n$abc\r\n", b"invalid bulk length"),
    (b"*1\r\n$1073741824\r\n", b"invalid bulk length"),
    (b"*1\r\n$9999999999999999999999\r\n", b"invalid bulk length"),
    (b"*1\r\n$4\r\nPINGPONG\r\n", b"invalid bulk length"),
    (b"SET a \"b\r\n", b"unbalanced quotes in request"),
    (b"x" * 70_000, b"too big inline request"),
    (b"*" + b"1" * 70_000, b"too big mbulk count string"),
    (b"*1\r\n$" + b"1" * 70_000, b"too big bulk count string"),
]


def malformed_frames_are_answered_and_closed(environment):
    with environment.server() as server:
        for stream, error in MALFORMED:
            with Client(server) as client:
                client.send(b"PING\r\n" + stream)
                expected = b"+PONG\r\n-ERR Protocol error: " + error + b"\r\n"
                equal(client.receive_rest(), expected, repr(stream[:40]))
        equal(server.information("stats")["protocol_errors"], str(len(MALFORMED)), "counted")


class Redis:
    """Redis itself, on a Unix socket. Debian's redis-tools has the server's program as
    redis-check-rdb; it becomes the server when it is called by that name."""

    def __init__(self, directory):
        program = os.path.join(directory, "redis-server")
        os.symlink(tool("redis-check-rdb"), program)
        version = subprocess.run([program, "--version"], stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, check=False).stdout.decode()
        if not re.search(r"Redis server v=[78]\.", version):
            raise Skip(f"compares with Redis 7 or 8, which this is not: {version.strip()!r}")
        self.path = os.path.join(directory, "socket")
        self.process = subprocess.Popen(
            [program, "--port", "0", "--unixsocket", self.path, "--save", "", "--dir", directory],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until("Redis listens", lambda: os.path.exists(self.path))

    def connect(self):
        one = socket.socket(socket.AF_UNIX)
        one.settimeout(kv.PATIENCE)
        one.connect(self.path)
        return one

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def answer(one, request):
    """What a server sends in answer to a request, up to an echo or the end of the connection."""
    end = b"end of the answer"
    answered = b""
    with one:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            one.sendall(request + encode("ECHO", end))
        with contextlib.suppress(ConnectionResetError):
            while not answered.endswith(end + b"\r\n"):
                data = one.recv(1 << 16)
                if not data:
                    break
                answered += data
    return answered


def answers_are_those_of_redis(environment):
    with tempfile.TemporaryDirectory(prefix="weft-redis-") as directory, \
            Redis(directory) as redis, environment.server() as server:
        for request in redis_comparison.REQUESTS:
            ours = answer(Client(server).socket, request)
            equal(ours, answer(redis.connect(), request), repr(request[:100]))


def oversized_requests_are_refused(environment):
    limits = ("--max-bulk", "1000000", "--max-request", "2000000")
    with environment.server(*limits) as server:
        with Client(server) as client:
            equal(client("SET", "k", b"x" * 1_000_000), b"+OK", "the largest value")
            equal(client("GET", "k"), b"x" * 1_000_000, "the largest value")
            client.send(b"*2\r\n$4\r\nECHO\r\n$1000001\r\n")
            equal(client.receive_rest(), b"-ERR Protocol error: invalid bulk length\r\n", "bulk")
        with Client(server) as client:
            client.send(b"*4\r\n$3\r\nDEL\r\n" + 2 * (b"$900000\r\n" + b"y" * 900_000 + b"\r\n"))
            client.send(b"$300000\r\n")
            error = b"-ERR Protocol error: request is larger than the query buffer limit\r\n"
            equal(client.receive_rest(), error, "request")


def memory_for_requests_is_limited_for_all_together(environment):
    with environment.server("--max-input-memory", "4000000") as server:
        clients = [Client(server) for _ in range(8)]
        # Each client alone is within the limits; all of them together are not.
        for client in clients:
            try:
                client.send(b"*2\r\n$4\r\nECHO\r\n$1000000\r\n" + b"z" * 999_999)
            except (BrokenPipeError, ConnectionResetError):
                pass  # refused already
        with Client(server) as other:
            wait_until("some are refused", lambda: int(
                server.information("clients")["connected_clients"]) < len(clients) + 2)
            equal(other("PING"), b"+PONG", "others are served")
        used = int(server.information("memory")["client_buffer_bytes"])
        if used > 4_000_000:
            raise AssertionError(f"{used} bytes are held for requests")
        for client in clients:
            client.socket.close()
        with Client(server) as other:
            equal(other("PING"), b"+PONG", "served afterwards")


def garbage_never_kills_the_server(environment):
    with environment.server() as server:
        pieces = [b"*", b"$", b"\r\n", b"1", b"-", b"3", b"*1\r\n", b"$4\r\nPING\r\n", b"\"", b"'",
                  b"\\x", b"\0", b" ", b"GET", b"*3\r\n$3\r\nSET\r\n", b"INFO\r\n", b"QUIT\r\n"]
        for seed in range(environment.scaled(300)):
            source = random.Random(seed)
            stream = b"".join(source.choice(pieces) for _ in range(source.randrange(1, 60)))
            with Client(server) as client:
                try:
                    client.send(stream)
                    client.socket.shutdown(socket.SHUT_WR)
                    client.receive_rest()
                except (BrokenPipeError, ConnectionResetError):
                    pass  # closed before it had read everything: that is allowed
        with Client(server) as client:
            equal(client("PING"), b"+PONG", "the server lives")


def pieces_of_any_size_are_understood(environment):
    with environment.server() as server, Client(server) as client:
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream = encode("SET", "k", b"a\r\nb") + b"get k\r\n" + encode("DEL", "k") + b"\r\nPING\n"
        for byte in stream:
            client.send(bytes([byte]))
        expected = b"+OK\r\n$4\r\na\r\nb\r\n:1\r\n+PONG\r\n"
        equal(client.receive(len(expected)), expected, "byte by byte")
        many = 5000
        client.send(b"INCR n\r\n" * many)
        expected = b"".join(b":%d\r\n" % number for number in range(1, many + 1))
        equal(client.receive(len(expected)), expected, "many in one")


def half_a_request_and_the_end_is_no_error(environment):
    with environment.server() as server:
        for stream in (b"", b"*2\r\n$3\r\nGE", b"PING"):
            with Client(server) as client:
                client.send(stream)
                client.socket.shutdown(socket.SHUT_WR)
                equal(client.receive_rest(), b"", "nothing to say")
        with Client(server) as client:
            client.send(b"PING\r\n")
            client.socket.shutdown(socket.SHUT_WR)
            equal(client.receive_rest(), b"+PONG\r\n", "answered although half closed")
        equal(server.error_text(), "", "reported")


def a_client_that_does_not_read_is_not_read_from(environment):
    with environment.server() as server, Client(server) as greedy, Client(server) as other:
        size, count = 1_000_000, 500
        equal(greedy("SET", "k", b"x" * size), b"+OK", "SET")
        before = server.resident_bytes()
        greedy.send(b"GET k\r\n" * count)
        for _ in range(200):
            equal(other("PING"), b"+PONG", "others are served")
        grown = server.resident_bytes() - before
        # All replies together would be 500 MB.
        if grown > 50_000_000:
            raise AssertionError(f"the server holds {grown} bytes for a client that does not read")
        whole = b"$%d\r\n" % size + b"x" * size + b"\r\n"
        for number in range(count):
            if greedy.receive(len(whole)) != whole:
                raise AssertionError(f"reply {number} is damaged")


def too_many_clients_are_told_so(environment):
    with environment.server("--max-clients", "3") as server:
        clients = [Client(server) for _ in range(3)]
        for client in clients:
            equal(client("PING"), b"+PONG", "within the limit")
        with Client(server) as refused:
            equal(refused.receive_rest(), b"-ERR max number of clients reached\r\n", "beyond it")
        clients.pop().socket.close()

        def served_again():
            with Client(server) as client:
                client.send(b"PING\r\n")
                return client.receive_line() == b"+PONG\r\n"

        wait_until("a place is free again", served_again)
        for client in clients:
            client.socket.close()


def descriptors_used_up_is_survived(environment):
    if "undefined" in environment.sanitizers:
        # Without a descriptor for it, it takes each object for one without a table.
        raise Skip("UndefinedBehaviorSanitizer needs a pipe to look at a virtual function table")
    with environment.server(descriptors=64) as server:
        clients = [Client(server) for _ in range(100)]
        wait_until("the server reports it", lambda: "accept" in server.error_text())
        equal(clients[0]("PING"), b"+PONG", "a client that is connected is served")
        # Those that wait in the queue are served when others leave.
        for client in clients[:60]:
            client.socket.close()
        for client in clients[60:]:
            equal(client("PING"), b"+PONG", "a client that waited is served")
            client.socket.close()
        equal(server.error_text().count("\n"), 1, "lines reported")


def hold_connections(host, port, count):
    """Runs in a process of its own: holds connections until its input ends, then uses each."""

    class Target:
        pass

    target = Target()
    target.host, target.port = host, port
    clients = []
    for number in range(count):
        clients.append(Client(target))
        if number % 500 == 0:
            equal(clients[-1]("PING"), b"+PONG", "PING")
    print("ready", flush=True)
    sys.stdin.read()
    for client in clients:
        client.send(b"PING\r\n")
    for client in clients:
        equal(client.receive_line(), b"+PONG\r\n", "PING after the load")
    print("served", flush=True)


def ten_thousand_idle_connections_and_load(environment):
    count = environment.scaled(10_000)
    kv.raise_descriptor_limit(count + 200)
    with environment.server() as server:
        holder = subprocess.Popen(
            [sys.executable, __file__, "--hold", server.host, str(server.port), str(count)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            equal(holder.stdout.readline(), b"ready\n", "the client process")
            open_now = int(server.information("clients")["connected_clients"])
            if open_now < count:
                raise AssertionError(f"only {open_now} clients are connected")
            benchmark(server, "-t", "ping,set,get,incr", "-n", str(environment.scaled(20_000)))
            benchmark(server, "-t", "set,get", "-n", str(environment.scaled(50_000)), "-P", "16")
            print(f"  {server.resident_bytes() // (open_now)} bytes resident per connection")
            output, _ = holder.communicate(b"", timeout=kv.PATIENCE)
            equal(output, b"served\n", "the idle clients after the load")
        finally:
            holder.kill()
            holder.wait()


def killed_clients_leak_nothing(environment):
    with environment.server() as server:
        benchmark(server, "-t", "set,get", "-n", str(environment.scaled(5_000)), "-c", "100")
        alone = lambda: server.information("clients")["connected_clients"] == "1"
        wait_until("only this client is connected", alone)
        # A connection is counted out a moment before its descriptor is closed.
        wait_until("only the listener's socket is open",
                   lambda: server.descriptors().count("socket:[N]") == 1)
        descriptors = server.descriptors()
        tasks = int(server.information("weft")["tasks_alive"])
        for round_number in range(3):
            load = [subprocess.Popen(
                [tool("redis-benchmark"), "-h", server.host, "-p", str(server.port), "-l", "-q",
                 "-t", "set,get", "-c", "200", "-P", pipeline, "-d", size, "-n", "10000000"],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                for pipeline, size in (("1", "3"), ("16", "2000"))]
            # Clients in the middle of a request, and some that do not read what they asked for.
            stuck = subprocess.Popen(
                [sys.executable, __file__, "--stuck", server.host, str(server.port)],
                stdout=subprocess.PIPE)
            equal(stuck.stdout.readline(), b"ready\n", "the stuck clients")
            done = int(server.information("stats")["total_commands_processed"])
            wait_until("there is load", lambda: int(server.information(
                "stats")["total_commands_processed"]) > done + environment.scaled(20_000))
            for process in load + [stuck]:
                process.kill()
                process.wait()
            stuck.stdout.close()
            wait_until(f"all clients are gone (round {round_number})", alone)
        try:
            wait_until("the descriptors are as before", lambda: server.descriptors() == descriptors)
        except AssertionError as error:
            raise AssertionError(f"{server.descriptors()} instead of {descriptors}") from error
        wait_until("the tasks are as before",
                   lambda: int(server.information("weft")["tasks_alive"]) == tasks)
        equal(server.error_text(), "", "a client that is gone is nothing to report")


def be_stuck(host, port):
    """Runs in a process of its own: clients that stop in the middle, until it is killed."""
    sockets = []
    for number in range(60):
        one = socket.create_connection((host, port))
        one.sendall([b"*2\r\n$3\r\nGET\r\n$100\r\nhalf", b"PI", b"INFO\r\n"][number % 3])
        sockets.append(one)
    reader = socket.create_connection((host, port))
    reader.sendall(encode("SET", "large", b"x" * 1_000_000))
    reader.recv(100)
    reader.sendall(b"GET large\r\n" * 100)
    print("ready", flush=True)
    time.sleep(10 * kv.PATIENCE)


def signals_end_the_server_cleanly(environment):
    for number in (signal.SIGTERM, signal.SIGINT):
        with environment.server() as server:
            clients = [Client(server) for _ in range(50)]
            for client in clients:
                equal(client("SET", "k", "v", "EX", "1000"), b"+OK", "SET")
            clients[0].send(b"*2\r\n$4\r\nECHO\r\n$100\r\nhalf of it")
            output = server.stop(number)
            for part in ("tasks spawned", "processor", "tasks run", "steals", "parks", "wakes"):
                if part not in output:
                    raise AssertionError(f"the last table lacks {part!r}: {output}")
            equal(server.error_text(), "", "errors")
            for client in clients:
                client.socket.close()


def the_end_comes_while_clients_set_expiries(environment):
    # Ever shorter lifetimes: each is earlier than what the expiry task of its shard waits for, so
    # that the server is in the middle of many of them when it ends.
    load = b"".join(encode("SET", f"k{number % 8}", "v", "PX", str(10_000_000 - number))
                    for number in range(5000))
    for _ in range(10):
        with environment.server("--shards", "4", "--processors", "4") as server:
            clients = [Client(server) for _ in range(8)]
            for client in clients:
                client.socket.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    client.socket.send(load)
            server.stop()
            equal(server.error_text(), "", "errors")
            for client in clients:
                client.socket.close()


def wrong_arguments_are_explained(environment):
    def run(*arguments):
        process = subprocess.run([environment.program, *arguments], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, timeout=kv.PATIENCE, check=False,
                                 env=dict(os.environ, WEFT_NETPOLL=environment.backend))
        return process.returncode, process.stdout.decode(), process.stderr.decode()

    for arguments, part in ((["--port", "x"], "--port"), (["--port", "65536"], "65535"),
                            (["--host", "example.org"], "example.org"), (["--nothing"], "nothing"),
                            (["--processors", "1025"], "1024"), (["file"], "file")):
        status, _, errors = run(*arguments)
        equal(status, 2, f"status of {arguments}")
        if part not in errors:
            raise AssertionError(f"{arguments}: {errors!r}")
    status, output, _ = run("--help")
    equal((status, output.startswith("usage: ")), (0, True), "--help")
    with environment.server() as server:
        status, _, errors = run("--port", str(server.port))
        equal(status, 1, "status with a port that is taken")
        if "ddress already in use" not in errors:
            raise AssertionError(f"a port that is taken: {errors!r}")


CASES = [
    every_command_through_redis_cli,
    benchmark_runs_without_error,
    keys_expire_by_themselves,
    malformed_frames_are_answered_and_closed,
    answers_are_those_of_redis,
    oversized_requests_are_refused,
    memory_for_requests_is_limited_for_all_together,
    garbage_never_kills_the_server,
    pieces_of_any_size_are_understood,
    half_a_request_and_the_end_is_no_error,
    a_client_that_does_not_read_is_not_read_from,
    too_many_clients_are_told_so,
    descriptors_used_up_is_survived,
    ten_thousand_idle_connections_and_load,
    killed_clients_leak_nothing,
    signals_end_the_server_cleanly,
    the_end_comes_while_clients_set_expiries,
    wrong_arguments_are_explained,
]


def main():
    arguments = sys.argv[1:]
    if arguments[0] == "--hold":
        kv.raise_descriptor_limit(int(arguments[3]) + 100)
        return hold_connections(arguments[1], int(arguments[2]), int(arguments[3]))
    if arguments[0] == "--stuck":
        return be_stuck(arguments[1], int(arguments[2]))
    sanitizers = [name for argument in arguments if argument.startswith("--sanitizer=")
                  for name in argument.split("=")[1].split(",")]
    only = [argument for argument in arguments[1:] if not argument.startswith("--")]
    forced = os.environ.get("WEFT_NETPOLL", "")
    backends = [forced] if forced in (*BACKENDS, CHOICE) else BACKENDS
    cases = []
    for backend in backends:
        environment = Environment(os.path.abspath(arguments[0]), backend, sanitizers)
        for case in CASES:
            if not only or case.__name__ in only:
                name = f"kv server on {backend}: {case.__name__.replace('_', ' ')}"
                cases.append((name, lambda case=case, to=environment: case(to)))
    return kv.run_cases(cases)


if __name__ == "__main__":
    sys.exit(main())
