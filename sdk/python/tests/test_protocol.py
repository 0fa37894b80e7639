"""The requests and answers in sdk/function/testdata, which the tests of the engine read too, and the transports."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import homeostat as h
import pytest
from homeostat._serve import respond

from . import web

HERE = Path(__file__).resolve().parent
PROTOCOL = HERE.parents[1] / "function"
REQUESTS = sorted((PROTOCOL / "testdata").glob("request-*.json"))
PROGRAM = [sys.executable, "-m", "tests.web"]


def answer_to(request: Path) -> Any:
    return json.loads(Path(str(request).replace("request-", "answer-")).read_text())


@pytest.mark.parametrize("request_file", REQUESTS, ids=[file.stem for file in REQUESTS])
def test_golden(request_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "write", lambda fd, data: len(data))
    assert respond(request_file.read_bytes(), web.reconcile, web.finalize) == answer_to(request_file)


def test_the_golden_files_have_each_field_of_the_protocol() -> None:
    fields = set(re.findall(r'`json:"(\w+)', (PROTOCOL / "protocol.go").read_text()))
    found: set[str] = set()

    def collect(value: Any) -> None:
        for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            collect(item)
        found.update(value if isinstance(value, dict) else ())

    for file in REQUESTS:
        collect(json.loads(file.read_text()))
        collect(answer_to(file))
    decorators = {"labels", "annotations"}  # for hooks of Metacontroller only
    assert len(fields) > 40 and fields - found == decorators


def run(*lines: bytes) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(PROGRAM, input=b"".join(lines), capture_output=True, cwd=HERE.parent, timeout=60)


def one_line(file: Path) -> bytes:
    return json.dumps(json.loads(file.read_text())).encode() + b"\n"


def test_lines() -> None:
    """Each request is answered, and what the function prints or raises does not disturb the answers."""
    done = run(*(one_line(file) for file in REQUESTS))
    assert [json.loads(line) for line in done.stdout.splitlines()] == [answer_to(file) for file in REQUESTS]
    assert done.returncode == 0
    errors = done.stderr.decode()
    for text in ("the program starts", "this is not an answer", "nor is this", "Traceback", "KeyError: 'replicas'"):
        assert text in errors


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"nonsense", "JSONDecodeError"),
        (b"[]", "TypeError"),
        (b'{"protocol": 1, "id": "7"}', "KeyError: 'call'"),
        (b'{"protocol": 2, "id": "7", "call": "reconcile"}', "protocol 2 is unknown: this package speaks 1"),
        (b'{"protocol": 1, "id": "7", "call": "destroy"}', "KeyError: 'destroy'"),
        (b"\xff", "UnicodeDecodeError"),
    ],
)
def test_garbage(line: bytes, message: str) -> None:
    """A request that is not one is answered with an error, and so is the next one that is."""
    done = run(line + b"\n\n", one_line(REQUESTS[0]))
    first, second = (json.loads(answer) for answer in done.stdout.splitlines())
    assert message in first["error"] and first["error"].startswith("the request is not understood: ")
    assert first["id"] == ("7" if b'"7"' in line else "")
    assert second == answer_to(REQUESTS[0])


def test_end() -> None:
    assert (run().returncode, run().stdout) == (0, b"")
    pipe = subprocess.PIPE
    with subprocess.Popen(PROGRAM, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, cwd=HERE.parent) as process:
        assert process.stdin and process.stdout
        process.stdin.write(one_line(REQUESTS[0]))
        process.stdin.flush()
        assert process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == -signal.SIGTERM


@contextmanager
def served(*options: str) -> Iterator[str]:
    """Starts the program, and returns its first line about where it serves. It ends with SIGTERM."""
    process = subprocess.Popen([*PROGRAM, *options], stderr=subprocess.PIPE, text=True, cwd=HERE.parent)
    assert process.stderr
    try:
        while True:
            line = process.stderr.readline()
            assert line, "the program has ended"
            if "serving" in line:
                break
        yield line.strip()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()


def post_all(connection: http.client.HTTPConnection) -> list[Any]:
    answers = []
    for file in REQUESTS:
        connection.request("POST", "/", file.read_bytes())
        response = connection.getresponse()
        assert (response.status, response.headers["Content-Type"]) == (200, "application/json")
        answers.append(json.loads(response.read()))
    return answers


def test_http() -> None:
    with served("--http", "127.0.0.1:0") as line:
        connection = http.client.HTTPConnection("127.0.0.1", int(line.rpartition(":")[2]), timeout=60)
        assert post_all(connection) == [answer_to(file) for file in REQUESTS]
        connection.putrequest("POST", "/")  # without a length
        connection.endheaders()
        assert connection.getresponse().status == 411
        connection.close()


class UnixConnection(http.client.HTTPConnection):
    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.host)


def test_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    killed = socket.socket(socket.AF_UNIX)
    killed.bind(str(path))  # of a process that was killed
    killed.close()
    with served("--unix", str(path)):
        connection = UnixConnection(str(path))
        assert post_all(connection) == [answer_to(file) for file in REQUESTS]
        connection.close()
    assert not path.exists()


def test_a_missing_function() -> None:
    request = PROTOCOL / "testdata" / "request-finalize.json"
    answer = respond(request.read_bytes(), web.reconcile)
    assert answer["error"] == "the program has no function finalize: give it to homeostat.run"


def exits(p: h.Pass) -> None:
    sys.exit("no")


def returns(p: h.Pass) -> Any:
    return {"children": []}


def stores_a_time(p: h.Pass) -> None:
    p.status["at"] = [p.now]


def calls_json(p: h.Pass) -> None:
    json.loads("{")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (exits, r"SystemExit: no \(test_protocol.py:\d+\)"),
        (returns, r"TypeError: the function returned .*"),
        (stores_a_time, r"TypeError: status.at\[0\]: datetime.datetime\(.*\) is no JSON value: use homeostat.timestamp"),
        (calls_json, r"JSONDecodeError: .* \(test_protocol.py:\d+\)"),
    ],
)
def test_failures(function: h.Function, message: str) -> None:
    answer = respond((PROTOCOL / "testdata" / "request-wait.json").read_bytes(), function)
    assert re.fullmatch(message, answer["error"])
    assert set(answer) == {"protocol", "id", "references", "error"}
