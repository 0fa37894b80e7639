"""Checks of objects, for eventually and consistently."""

from __future__ import annotations

import inspect
from typing import Any, Callable, NamedTuple, Union

Object = dict[str, Any]
"""A Kubernetes object as plain data."""

Predicate = Callable[[Object], Any]
"""A function of an object that exists. It passes unless it returns False or a text that says what is missing, or an assert
statement fails."""


class Condition(NamedTuple):
    """A check that testkit evaluates."""

    check: str
    type: str = ""
    status: str = ""
    reason: str = ""


Check = Union[Condition, Predicate]


def ready() -> Condition:
    """Passes for an object that is up to date with its spec and usable.

    A custom resource needs the condition Ready. Built-in kinds follow the rules of kstatus: for example, all replicas of a
    Deployment have to be available.
    """
    return Condition("ready")


def exists() -> Condition:
    """Passes if the object exists."""
    return Condition("exists")


def gone() -> Condition:
    """Passes if the object does not exist, or if another object of the same name has replaced it."""
    return Condition("gone")


def condition(type: str, status: str = "True", reason: str = "") -> Condition:
    """Passes for an object with this status condition, set for the current generation of its spec."""
    return Condition("condition", type, status, reason)


def ref(api_version: str, kind: str, name: str, namespace: str = "") -> Object:
    """Names an object. The default namespace is that of the test."""
    metadata = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def describe(predicate: Predicate) -> str:
    """Returns the name of a function, or the source of a lambda expression."""
    name: str = getattr(predicate, "__name__", repr(predicate))
    if name != "<lambda>":
        return name.replace("_", " ")
    try:
        source = inspect.getsource(predicate)
    except (OSError, TypeError):
        return name
    text = " ".join(source[source.index("lambda") :].split())
    return _expression(text)


def _expression(text: str) -> str:
    """Returns a lambda expression without what follows it in its line."""
    depth = 0
    for i, c in enumerate(text):
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        if depth < 0 or (depth == 0 and c == "," and ":" in text[:i]):
            return text[:i]
    return text


def missing(predicate: Predicate, obj: Object | None) -> str:
    """Returns what an object is missing to pass, or an empty text."""
    if obj is None:
        return "the object does not exist"
    try:
        result = predicate(obj)
    except AssertionError as e:
        return str(e) or f"an assert statement of {describe(predicate)} fails"
    except (KeyError, IndexError, TypeError) as e:  # a field that is not there yet
        return f"{type(e).__name__}: {e}"
    if isinstance(result, str):
        return result
    if result is False:
        return f"not: {describe(predicate)}"
    return ""
