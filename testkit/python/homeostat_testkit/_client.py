"""The connection to the testkit program: JSON-RPC 2.0, one message a line, over its standard streams."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from operator import methodcaller
from pathlib import Path
from typing import IO, Any, Callable

PROTOCOL = 1
"""The version of the protocol that this package speaks."""

MODULE = "github.com/homeostat-dev/homeostat/testkit/cmd/testkit"

_FAILED = 1


class TestkitError(Exception):
    """The testkit program cannot be used. The text says why, and what to do."""


class Failure(AssertionError):
    """An expectation does not hold, or the API server rejected an object."""


# A failure is shown at the line of the test, without the lines of this package.
__tracebackhide__ = methodcaller("errisinstance", Failure)


def find_program(stderr: int | IO[str] | None = None) -> str:
    """Returns the path of the testkit program.

    It is the one in the variable ``TESTKIT``, or else in ``PATH``, or else it is built with Go: from the checkout that holds
    this package, or else from the released module. A build after the first one takes about a second.
    """
    given = os.environ.get("TESTKIT")
    if given:
        if not os.access(given, os.X_OK):
            raise TestkitError(f"TESTKIT={given}: there is no such program: correct the path, or unset the variable")
        return given
    found = shutil.which("testkit")
    if found:
        return found
    go = shutil.which("go")
    if not go:
        raise TestkitError(
            f"there is no program testkit in PATH, and no Go to build it: install Go and run `go install {MODULE}@latest`, "
            "or set TESTKIT to the program's path"
        )
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "homeostat"
    cache.mkdir(parents=True, exist_ok=True)
    env = dict(os.environ, CGO_ENABLED="0")
    source = Path(__file__).resolve().parents[2]
    if (source / "cmd" / "testkit" / "main.go").exists():
        program = cache / "testkit-of-a-checkout"
        command, cwd = [go, "build", "-o", str(program), "./cmd/testkit"], str(source)
    else:
        program = cache / "testkit"
        command, cwd = [go, "install", MODULE + "@latest"], str(cache)
        env["GOBIN"] = str(cache)
    built = subprocess.run(command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if built.returncode != 0:
        raise TestkitError(f"building the testkit program with `{' '.join(command)}` in {cwd}:\n{built.stdout.strip()}")
    return str(program)


class Server:
    """A testkit program with a control plane for tests. It is for one thread.

    The control plane is shared with all processes of the machine's user that need the same one, such as other workers of
    pytest-xdist and ``go test``. It ends after the last of them.
    """

    def __init__(
        self,
        *,
        crds: Sequence[str | Path] = (),
        rbac: Sequence[str | Path] = (),
        service_account: str = "",
        workloads: bool = False,
        program: str | None = None,
        stderr: int | IO[str] | None = None,
    ) -> None:
        """Starts the program.

        ``crds`` are files or folders with CustomResourceDefinitions. ``rbac`` are files or folders with the operator's roles:
        operators act as their ServiceAccount, with these permissions and no others. With ``workloads`` there are
        controllers and simulated nodes, so that a Deployment gets pods and pods run.
        """
        self.program = program or find_program()
        self.options: list[str] = []
        for path in crds:
            self.options += ["--crd", str(path)]
        for path in rbac:
            self.options += ["--rbac", str(path)]
        if service_account:
            self.options += ["--service-account", service_account]
        if workloads:
            self.options.append("--workloads")
        self._process = subprocess.Popen(
            [self.program, "serve", *self.options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            encoding="utf-8",
            start_new_session=True,  # Ctrl-C ends the tests, and then close ends the program
        )
        self._count = 0
        self._checks: dict[int, Callable[[dict[str, Any] | None], str]] = {}
        try:
            self.call("connect", protocol=PROTOCOL)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends the program. Operators that still run are killed, and open namespaces are deleted."""
        process = self._process
        if process.stdin and not process.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, method: str, **params: Any) -> Any:
        """Sends a request, and returns its result. Meanwhile the program may ask for checks."""
        self._count += 1
        number = self._count
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        while True:
            message = self._receive()
            if message.get("method") == "check":
                self._answer(message)
            elif message.get("id") == number:
                if "error" in message:
                    raise self._error(message["error"])
                return message.get("result")

    def register(self, check: Callable[[dict[str, Any] | None], str]) -> int:
        """Makes a check known to the program. It gets an object, or None, and returns what is missing."""
        number = len(self._checks) + 1
        self._checks[number] = check
        return number

    def _answer(self, message: dict[str, Any]) -> None:
        params = message["params"]
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        interruption: BaseException | None = None
        try:
            answer["result"] = self._checks[params["callback"]](params["object"])
        except BaseException as e:  # an error of the test's own function, or an interruption
            answer["error"] = {"code": _FAILED, "message": f"{type(e).__name__}: {e}"}
            if not isinstance(e, Exception):
                interruption = e  # the answer to the pending request will be ignored
        self._send(answer)
        if interruption is not None:
            raise interruption

    @staticmethod
    def _error(error: dict[str, Any]) -> Exception:
        if error["code"] == _FAILED:
            return Failure(error["message"])
        return TestkitError(error["message"])

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            raise self._ended() from None

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._ended()
        message = json.loads(line)
        assert isinstance(message, dict)
        return message

    def _ended(self) -> TestkitError:
        code = self._process.wait()
        return TestkitError(f"`{self.program} serve {' '.join(self.options)}` has ended with code {code}: see what it printed")
