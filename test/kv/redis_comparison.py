# SPDX-License-Identifier: MIT
"""What is sent to the key-value server and to Redis itself: both must answer with the same bytes.

Left out is what differs on purpose: Redis allows more elements in a request and more arguments of
a command, skips what stands behind a bulk instead of looking at it, looks for lines that are too
long only when a read ends within one, and has commands and options that the server has not.
"""

from kv_support import encode

LONG = ("9223372036854775807", "-9223372036854775808", "9223372036854775808", "-5", "0", "07",
        "1.5", " 7", "x", "", "-0", "+1")

COMMANDS = [
    ("PING",), ("PING", "a\r\nb"), ("PING", "a", "b"), ("ECHO", ""), ("ECHO",), ("ECHO", "a", "b"),
    ("SET", "a", "1"), ("GET", "a"), ("get", "A"), ("GeT", "missing"), ("SET", "a", ""),
    ("GET", "a"), ("SET", "a", "b", "NX"), ("SET", "a", "c", "XX", "GET"), ("SET", "n", "v", "XX"),
    ("SET", "a", "d", "NX", "GET"), ("SET", "new", "d", "GET"), ("SET", "a", "b", "NX", "XX"),
    ("SET", "a", "b", "NX", "NX"), ("SET", "a", "b", "EX", "100"), ("TTL", "a"),
    ("SET", "a", "c", "KEEPTTL"), ("TTL", "a"), ("SET", "a", "b", "PX", "100400"), ("TTL", "a"),
    ("SET", "a", "b", "PX", "100600"), ("TTL", "a"), ("SET", "a", "v"), ("TTL", "a"),
    ("TTL", "missing"), ("SET", "a", "b", "EX", "1", "PX", "1"), ("SET", "a", "b", "FOO"),
    ("SET", "a", "b", "EX", "1", "EX", "50"), ("TTL", "a"), ("SET", "a", "b", "EX"),
    ("SET", "a", "b", "KEEPTTL", "EX", "1"), ("SET", "a", "b", "EX", "1", "KEEPTTL"), ("SET", "a"),
    ("EXPIRE", "a", "100"), ("TTL", "a"), ("EXPIRE", "missing", "100"), ("EXPIRE", "a"),
    ("EXPIRE", "a", "10", "FOO"), ("EXPIRE", "a", "-1"), ("EXISTS", "a"), ("SET", "b", "v"),
    ("EXPIRE", "b", "0"), ("GET", "b"), ("SET", "x", "1"), ("SET", "y", "2"),
    ("EXISTS", "x", "x", "y", "z"), ("EXISTS",), ("DBSIZE",), ("DBSIZE", "x"),
    ("DEL", "x", "x", "y", "z"), ("DEL",), ("INCR", "c"), ("INCR", "c"), ("GET", "c"), ("INCR",),
    *(command for number in LONG for command in (("SET", "i", number), ("INCR", "i"))),
    *(("SET", "k", "v", unit, number) for number in LONG for unit in ("EX", "PX")),
    *(("EXPIRE", "i", number) for number in LONG),
    ("FLUSHALL", "x"), ("FLUSHALL", "async", "sync"), ("FLUSHALL", "sync"), ("FLUSHALL", "async"),
    ("FLUSHALL",), ("DBSIZE",), ("CONFIG", "GET", "save"), ("CONFIG", "GET", "appendonly"),
    ("CONFIG", "GET", "nothing"), ("CONFIG", "GET"), ("CONFIG",), ("CONFIG", "FOO"),
    ("config", "foo"), ("COMMAND", "FOO"), ("COMMAND", "COUNT", "x"), ("COMMAND", "INFO", "none"),
    ("COMMAND", "DOCS", "none"), ("INFO", "nothing"), ("",), ("", "a"), ("foo",),
    ("Foo", "a", "b c"),
    ("foo\r\nbar", "a\r\nb"), ("x" * 200, "y" * 100, "z" * 100, "w"), ("foo", "y" * 128, "w"),
    ("GET",), ("GET", "a", "b"), ("TTL",),
]

STREAMS = [
    b"PING\r\n", b"PING\n", b"  ping   x  \r\n", b"\r\n", b"   \r\n", b"*0\r\n", b"*-1\r\n",
    b"*-7\r\n", b'SET a "x\\x41\\n\\q\\"" NX\r\nGET a\r\n', b"SET b 'it\\'s \\n'\r\nGET b\r\n",
    b"set c ''\r\nget c\r\n", b'echo a"b c"\r\n', b'echo "\\x4"\r\n', b'echo "\\xzz\\x41"\r\n',
    b'echo a\\nb\r\n', b"echo 'a'b\r\n", b'echo "a"b\r\n', b'echo a"b c"d\r\n', b'echo "a\r\n',
    b"echo 'a\r\n", b'echo "a\\"\r\n', b"\vping\t\r\n", b"*x\r\n", b"*\r\n", b"*+1\r\n", b"*01\r\n",
    b"* 1\r\n", b"*1 \r\n", b"*2147483648\r\n", b"*99999999999999999999\r\n", b"*1\r\nfoo\r\n",
    b"*1\r\n\r\n", b"*2\r\n$3\r\nGET\r\n:1\r\n", b"*1\r\n$\r\n", b"*1\r\n$+4\r\n", b"*1\r\n$04\r\n",
    b"*1\r\n$-1\r\n", b"*1\r\n$4x\r\n", b"*1\r\n$9999999999\r\n",
    b"*1\r\n$99999999999999999999\r\n",
    b"QUIT\r\nPING\r\n",
]

REQUESTS = [encode(*command) for command in COMMANDS] + STREAMS
