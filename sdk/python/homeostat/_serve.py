"""The transports: JSON lines over the standard streams, and HTTP over TCP or a unix socket."""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import socketserver
import sys
import threading
import traceback
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Callable

from ._json import Object
from ._pass import PROTOCOL, MissingReference, Pass, Problem

Function = Callable[[Pass], None]
"""A function records the desired state in the pass. It raises Wait or Invalid, or any other exception for a failure."""

_HERE = os.path.dirname(os.path.abspath(__file__))


def run(*, reconcile: Function, finalize: Function | None = None, argv: Sequence[str] | None = None) -> None:
    """Answers requests of the engine until the end of the input, SIGTERM or SIGINT.

    By default a request is a line of the standard input, and its answer is a line of the standard output. The function
    cannot disturb them: its standard input is empty, and its standard output is the standard error. With
    ``--http HOST:PORT`` or ``--unix PATH`` in ``argv``, the arguments of the program, requests are HTTP POSTs. The functions
    are called one at a time.
    """
    parser = argparse.ArgumentParser(description="Answers requests of the engine, over the standard streams.")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--http", metavar="HOST:PORT", help="serve HTTP; port 0 is a free one")
    where.add_argument("--unix", metavar="PATH", help="serve HTTP over a unix socket")
    options = parser.parse_args(argv)

    def handle(body: bytes) -> bytes:
        return (json.dumps(respond(body, reconcile, finalize), separators=(",", ":")) + "\n").encode()

    try:
        if options.http or options.unix:
            _serve_http(handle, options.http, options.unix)
        else:
            _serve_lines(handle)
    except (KeyboardInterrupt, BrokenPipeError):
        pass  # the engine has ended, or this program is to end


def respond(body: bytes, reconcile: Function, finalize: Function | None = None) -> Object:
    """Returns the answer to a request. A failure is an answer as well."""
    id = ""
    try:
        request = json.loads(body)
        id = request["id"]
        if request["protocol"] != PROTOCOL:
            raise ValueError(f"protocol {request['protocol']} is unknown: this package speaks {PROTOCOL}")
        function = {"reconcile": reconcile, "finalize": finalize}[request["call"]]
        p = Pass(request)
    except Exception as e:
        traceback.print_exc()
        return {"protocol": PROTOCOL, "id": id, "error": f"the request is not understood: {type(e).__name__}: {e}"}
    if function is None:
        return p.answer(f"the program has no function {request['call']}: give it to homeostat.run")
    try:
        return call(function, p)
    except (Exception, SystemExit) as e:
        traceback.print_exc()
        return p.answer(describe(e))


def call(function: Function, p: Pass) -> Object:
    """Calls the function, and returns the answer. It raises the exceptions of the function except Wait and Invalid."""
    try:
        result: Any = function(p)
    except MissingReference:
        return p.answer()
    except Problem as e:
        return p.answer(e)
    if result is not None:
        raise TypeError(f"the function returned {result!r}: it records the desired state in the pass, and returns None")
    return p.answer()


def describe(e: BaseException) -> str:
    """Returns an exception in one line, with the last position in the program's own folder."""
    frames = [f for f in traceback.extract_tb(e.__traceback__) if os.path.dirname(os.path.abspath(f.filename)) != _HERE]
    text = " ".join(f"{type(e).__name__}: {e}".split())
    if not frames:
        return text
    folder = os.path.dirname(frames[0].filename)
    own = [f for f in frames if f.filename.startswith(folder)][-1]
    return f"{text} ({os.path.basename(own.filename)}:{own.lineno})"


def _serve_lines(handle: Callable[[bytes], bytes]) -> None:
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)  # before a flush, so that what was printed before goes there as well
    sys.stdout = sys.stderr
    for line in requests:
        if line.strip():
            answers.write(handle(line))
            answers.flush()


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128


class _UnixServer(_Server):
    address_family = socket.AF_UNIX


def _serve_http(handle: Callable[[bytes], bytes], address: str | None, path: str | None) -> None:
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # the header and the body in one packet

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            if not length.isdigit():
                self.send_error(411)
                return
            body = self.rfile.read(int(length))
            with lock:
                answer = handle(body)
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server: _Server
    if path:
        if Path(path).is_socket():
            os.unlink(path)  # of a process that was killed
        server = _UnixServer(path, Handler)  # type: ignore[arg-type]
        print(f"serving HTTP on the unix socket {path}", file=sys.stderr, flush=True)
    else:
        host, _, port = str(address).rpartition(":")
        server = _Server((host, int(port)), Handler)
        print("serving HTTP on {}:{}".format(*server.server_address), file=sys.stderr, flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        server.serve_forever()
    finally:
        server.server_close()
        if path:
            os.unlink(path)
