"""A test's namespace, and the operators that run in it."""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ._checks import Check, Condition, Object, describe, missing
from ._client import Server, __tracebackhide__  # noqa: F401 (pytest reads the second)


class Request(NamedTuple):
    """One request of an operator. The verb is get, list, create, update, patch, apply, delete or deletecollection."""

    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int

    @property
    def writes(self) -> bool:
        """True unless the request only reads."""
        return self.verb not in ("get", "list", "watch")


class Namespace:
    """The namespace of one test, and what the test does in it as an administrator.

    Objects are dicts with apiVersion, kind and metadata, as in YAML. One without metadata.namespace is in this namespace. Where
    only a name is needed, :func:`ref` makes such a dict. Methods raise :class:`Failure` with the reason.
    """

    def __init__(
        self,
        server: Server,
        test: str,
        *,
        replay: str = "",
        timeout: float = 30,
        without: Sequence[str] = (),
        reason: str = "",
    ) -> None:
        """Creates a namespace for the named test.

        ``timeout`` in seconds is the limit of each wait. ``without`` names rules to switch off, and ``reason`` says why.
        """
        self._server = server
        opened = server.call("test.open", name=test, replay=replay, timeout=timeout, without=list(without), reason=reason)
        self._test: str = opened["test"]
        self.name: str = opened["namespace"]
        """The name of the namespace."""
        self.kubeconfig: str = opened["kubeconfig"]
        """The path of an administrator's kubeconfig, for client libraries and kubectl. Its namespace is this one."""
        self.timeout = timeout
        self.operators: list[Operator] = []
        self.log = ""
        """What happened, after close."""

    def close(self, *, failed: bool = False) -> builtins.list[str]:
        """Stops the operators and deletes the namespace. Returns the rules that the operators violated."""
        closed = self._server.call("test.close", test=self._test, failed=failed)
        self.log = closed["log"]
        failures: list[str] = closed["failures"]
        return failures

    def __enter__(self) -> Namespace:
        return self

    def __exit__(self, kind: type | None, *_: object) -> None:
        failures = self.close(failed=kind is not None)
        if kind is None and failures:
            raise AssertionError("\n".join(failures) + "\n" + self.log)

    def apply(self, *objects: Object | str | Path) -> Object:
        """Creates or changes objects, or those of YAML files and folders, and returns the last one as it is stored.

        It works like ``kubectl apply --server-side --force-conflicts``: fields that an object does not mention stay unchanged.
        The status is ignored: see patch.
        """
        stored: list[Object] = []
        for o in objects:
            if isinstance(o, (str, Path)):
                stored += self._call("apply", path=str(Path(o).absolute()))
            else:
                stored += self._call("apply", objects=[o])
        if not stored:
            raise ValueError("apply: there are no objects")
        return stored[-1]

    def read(self, path: str | Path) -> builtins.list[Object]:
        """Returns the objects of a YAML file or folder, for example to apply a sample under another name."""
        objects: list[Object] = self._server.call("read", path=str(Path(path).absolute()))
        return objects

    def patch(self, obj: Object, patch: Mapping[str, Any], subresource: str = "") -> Object:
        """Changes an object by a JSON merge patch, in which None removes a field. A subresource is for example ``status``."""
        return self._object("patch", obj, patch=patch, subresource=subresource)

    def delete(self, obj: Object) -> None:
        """Deletes an object, and does not wait until it is gone: see :func:`gone`."""
        self._call("delete", **_reference(obj))

    def get(self, obj: Object) -> Object | None:
        """Returns an object as it is stored, or None if there is none."""
        stored: Object | None = self._call("get", **_reference(obj))
        return stored

    def list(
        self, api_version: str, kind: str, *, labels: Mapping[str, str] | None = None, namespace: str = ""
    ) -> builtins.list[Object]:
        """Returns the objects of a kind in this namespace, or in another one."""
        objects: list[Object] = self._call(
            "list", apiVersion=api_version, kind=kind, labels=dict(labels or {}), namespace=namespace
        )
        return objects

    def refused(self, obj: Object) -> str:
        """Creates an object that the API server must reject, and returns its message."""
        message: str = self._call("refused", object=obj)
        return message

    def eventually(self, obj: Object, *checks: Check, timeout: float | None = None) -> Object:
        """Waits until an object passes all checks at once, and returns that state. It sees short-lived states, too.

        ``timeout`` in seconds replaces that of the namespace.
        """
        return self._object("eventually", obj, checks=self._checks(checks), timeout=timeout or 0, uid=_uid(obj))

    def consistently(self, obj: Object, *checks: Check, seconds: float) -> None:
        """Fails if an object fails one of the checks at any moment within the given time."""
        self._call("consistently", checks=self._checks(checks), during=seconds, **_reference(obj))

    def states(self, obj: Object) -> builtins.list[Object | None]:
        """Returns each stored state of an object since the begin of the test. A deletion is None.

        If the API server serves several versions of the kind, ``apiVersion`` has to be the preferred one.
        """
        states: list[Object | None] = self._call("states", **_reference(obj))
        return states

    def idle(self, *, quiet: float = 0.5, timeout: float = 30) -> None:
        """Waits until the operators have written nothing, and received no event, for a quiet time in seconds."""
        self._call("operator.idle", quiet=quiet, timeout=timeout)

    def operator(self, *command: str, env: Mapping[str, str] | None = None, folder: str | Path = ".") -> Operator:
        """Returns an operator that runs this command: see :class:`Operator`. It does not start it."""
        return Operator(self, command, env, folder)

    def refuse(self, verb: str = "", resource: str = "", *, code: int = 500, times: int = 0, **where: Any) -> Fault:
        """Answers requests of the operators with an HTTP status, and does not carry them out.

        ``verb`` is that of a request; without one, all writes. ``resource`` is a plural, such as ``deployments``, perhaps with
        a group, ``deployments.apps``, or a subresource, ``pods/status``. ``name`` is that of the object, ``after`` the number of
        such requests that pass before, and ``times`` the number that is answered so; 0 means all.
        """
        return self._fault("refuse", verb, resource, code=code, times=times, **where)

    def lose(self, verb: str = "", resource: str = "", *, times: int = 1, **where: Any) -> Fault:
        """Carries requests out, and breaks the connection before the answer. The arguments are those of refuse."""
        return self._fault("lose", verb, resource, times=times, **where)

    def delay(self, seconds: float, verb: str = "", resource: str = "", *, times: int = 0, **where: Any) -> Fault:
        """Delays requests. The arguments are those of refuse."""
        return self._fault("delay", verb, resource, seconds=seconds, times=times, **where)

    def kill_at(self, verb: str = "", resource: str = "", *, before: bool = False, **where: Any) -> Fault:
        """Kills the operator when its request was carried out, or before it is. The arguments are those of refuse.

        The test waits for the end with :meth:`Operator.wait`, and starts the operator again.
        """
        return self._fault("kill-before" if before else "kill-after", verb, resource, **where)

    def break_watches(self, resource: str, *, cause: str = "break") -> int:
        """Ends the operators' watches of a resource, such as ``deployments.apps``, and returns their number.

        The causes are ``break``, a lost connection; ``close``, a regular end; and ``expire``, after which a client has to list
        again.
        """
        name, _, group = resource.partition(".")
        n: int = self._call("operator.watches", kind={"group": group, "resource": name}, cause=cause)
        return n

    @contextlib.contextmanager
    def outage(self) -> Iterator[None]:
        """In a with statement, the API server answers 503 to all requests of the operators."""
        self._call("operator.outage", ends=False)
        try:
            yield
        finally:
            self._call("operator.outage", ends=True)

    def fail_pods(self, labels: str, mode: str = "", *, exit_code: int | None = None) -> None:
        """Puts pods that match a label selector into a mode: ``succeeded``, ``failed``, ``crash-loop`` or ``evicted``.

        ``exit_code`` ends their containers once instead. It needs simulated nodes: the option workloads.
        """
        self._call("pods.fail", labels=labels, mode=mode, exitCode=exit_code)

    def heal_pods(self, labels: str) -> None:
        """Reverts fail_pods."""
        self._call("pods.heal", labels=labels)

    def _fault(self, action: str, verb: str, resource: str, **where: Any) -> Fault:
        name, _, subresource = resource.partition("/")
        number = self._call("operator.fault", action=action, verb=verb, resource=name, subresource=subresource, **where)
        return Fault(self, number)

    def _checks(self, checks: Sequence[Check]) -> builtins.list[dict[str, Any]]:
        if not checks:
            raise ValueError("there are no checks: give one, such as ready()")
        return [self._check(c) for c in checks]

    def _check(self, check: Check) -> dict[str, Any]:
        if isinstance(check, Condition):
            return check._asdict()
        predicate = check
        number = self._server.register(lambda o: missing(predicate, o))
        return {"check": "callback", "callback": number, "name": describe(predicate)}

    def _object(self, method: str, obj: Object, **params: Any) -> Object:
        result: Object = self._call(method, **_reference(obj), **params)
        return result

    def _call(self, method: str, **params: Any) -> Any:
        return self._server.call(method, test=self._test, **params)


class Operator:
    """A program that runs as an operator.

    In its command and environment, ``{kubeconfig}`` and ``{namespace}`` stand for its kubeconfig and the test's namespace, and
    ``{port}`` for a free TCP port. It gets them by KUBECONFIG, and by NAMESPACE, POD_NAMESPACE and WATCH_NAMESPACE. Its requests
    pass a proxy, which records them and injects faults. It sees no objects of other tests.
    """

    def __init__(
        self,
        namespace: Namespace,
        command: Sequence[str],
        env: Mapping[str, str] | None = None,
        folder: str | Path = ".",
    ) -> None:
        self.namespace = namespace
        self.command = list(command)
        self.env = [f"{k}={v}" for k, v in (env or {}).items()]
        self.folder = str(Path(folder).absolute())
        self._numbers: list[int] = []
        namespace.operators.append(self)

    def start(self) -> Operator:
        """Starts the program, and returns when it has sent its first requests. It may be started again after its end."""
        number = self.namespace._call("operator.start", command=self.command, env=self.env, folder=self.folder)
        self._numbers.append(number)
        return self

    def stop(self) -> None:
        """Sends SIGTERM, and kills the program 10 s later. Returns when it has ended."""
        self._call("operator.stop")

    def kill(self) -> None:
        """Kills the program, with SIGKILL. Returns when it has ended."""
        self._call("operator.kill")

    def wait(self, timeout: float = 30) -> None:
        """Waits until the program has ended, for example by :meth:`Namespace.kill_at`."""
        self._call("operator.wait", timeout=timeout)

    @property
    def requests(self) -> list[Request]:
        """The requests of all its processes so far, without watches and leader election."""
        all: list[Request] = []
        for number in self._numbers:
            all += [Request(**r) for r in self.namespace._call("operator.requests", operator=number)]
        return all

    @property
    def writes(self) -> list[Request]:
        """The requests that do not only read."""
        return [r for r in self.requests if r.writes]

    def _call(self, method: str, **params: Any) -> Any:
        if not self._numbers:
            raise ValueError(f"the operator `{' '.join(self.command)}` was not started")
        return self.namespace._call(method, operator=self._numbers[-1], **params)


class Fault:
    """A fault at requests of the operators. In a with statement, it ends with it; else with the test."""

    def __init__(self, namespace: Namespace, number: int) -> None:
        self._namespace = namespace
        self._number = number
        self.hits = 0
        """The number of requests that had the fault, after its end."""

    def end(self) -> int:
        """Ends the fault, and returns the number of requests that had it."""
        if self._number:
            self.hits = self._namespace._call("operator.fault.end", fault=self._number)
            self._number = 0
        return self.hits

    def __enter__(self) -> Fault:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


def _reference(obj: Object) -> dict[str, Any]:
    metadata = obj.get("metadata") or {}
    if not obj.get("apiVersion") or not obj.get("kind") or not metadata.get("name"):
        raise ValueError(f"the object needs apiVersion, kind and metadata.name: {obj!r}")
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": metadata["name"],
        "namespace": metadata.get("namespace") or "",
    }


def _uid(obj: Object) -> str:
    uid: str = obj["metadata"].get("uid") or ""
    return uid
