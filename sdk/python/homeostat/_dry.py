"""Calls of a function without an engine, for unit tests."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from ._json import Object, timestamp
from ._pass import PROTOCOL, Pass
from ._serve import Function, call


class Plan:
    """What a function wants. Equal plans have equal text, which says what the engine would write.

    The text knows neither defaults of the API server nor retained children: it shows the former as changes, and the
    latter as deleted when they leave the plan.
    """

    def __init__(self, request: Object, answer: Object) -> None:
        self._request = request
        self.answer = answer
        """The answer in the notation of the protocol."""
        self.children: list[Object] = [c["object"] for c in answer.get("children", [])]
        """The desired children in their order."""
        self.status: Object = answer["status"]
        self.conditions: dict[str, Object] = {c["type"]: c for c in answer["conditions"]}
        """The conditions that the function defines, by their type."""
        self.wait: Object | None = answer.get("wait")
        """The reason and the message of Wait, or None."""
        self.invalid: Object | None = answer.get("invalid")
        """The reason and the message of Invalid, or None."""

    def child(self, kind: str, name: str) -> Object:
        """Returns a desired child."""
        for child in self.children:
            if child["kind"] == kind and child["metadata"]["name"] == name:
                return child
        raise LookupError(f"{kind} {name} is not in the plan:\n{self}")

    def __str__(self) -> str:
        lines = [self._title(self._request["object"])]
        verdicts = [k for k in ("unfinished", "wait", "invalid", "notReady", "suspended") if k in self.answer]
        lines += ["  {}: {reason}: {message}".format(k, **self.answer[k]) for k in verdicts]
        live = {self._title(c): c for c in self._request["children"]}
        for c in self.answer.get("children", []):
            title = self._title(c["object"])
            was = live.pop(title, None)
            changes = _differences(was, c["object"], "") if was and not c.get("createOnly") else []
            changes = [d for d in changes if not d.startswith(tuple(c.get("unmanaged", [])))]
            if "holdBack" in c:
                lines.append(f"  hold back {title}: {c['holdBack']['reason']}: {c['holdBack']['message']}")
            elif was is None or changes:
                lines.append(f"  {'update' if was else 'create'} {title}")
                lines += [f"      {change}" for change in changes]
        if self.wait is None and self.invalid is None and (self._request["call"] == "reconcile" or "unfinished" in self.answer):
            orphaned = [(k["apiVersion"], k["kind"]) for k in self.answer.get("orphan", [])]
            lines += [f"  {'orphan' if (o['apiVersion'], o['kind']) in orphaned else 'delete'} {t}" for t, o in live.items()]
        for c in self.conditions.values():
            lines.append("  {type}={status} ({reason})".format(**c) + (f": {c['message']}" if c.get("message") else ""))
        for key, value in sorted(self.status.items()):
            lines.append(f"  status.{key}: {value}")
        return "\n".join(lines) + "\n"

    def _title(self, obj: Object) -> str:
        home = self._request["object"]["metadata"].get("namespace")
        where = obj["metadata"].get("namespace") or home
        return f"{obj['kind']} {obj['metadata']['name']}" + (f" in {where}" if where != home else "")


def dry(
    function: Function,
    object: Object,
    *live: Object,
    observed: Sequence[Object] = (),
    references: Sequence[Object] = (),
    now: datetime | None = None,
) -> Plan:
    """Calls a function without an engine and a cluster, and returns what it wants.

    ``live`` are the existing children, ``observed`` the objects of observed kinds, and ``references`` the other objects of
    the cluster, for ref and find. ``now`` is 2026-01-01 by default. Exceptions other than Wait and Invalid are raised.
    """
    request: Object = {
        "protocol": PROTOCOL,
        "id": "dry",
        "call": "finalize" if object["metadata"].get("deletionTimestamp") else "reconcile",
        "object": object,
        "children": _sorted(live),
        "observed": _sorted(observed),
        "references": [],
        "namespaces": [],
        "now": timestamp(now or datetime(2026, 1, 1, tzinfo=timezone.utc)),
        "dry": True,
    }
    while True:
        answer = call(function, Pass(copy.deepcopy(request)))
        known = len(request["references"])
        for r in answer["references"][known:]:
            request["references"].append({**r, "objects": [o for o in _sorted(references) if _selects(r, o, object)]})
        if len(request["references"]) == known:
            return Plan(request, answer)


def check_pure(function: Function, request: Object) -> None:
    """Raises AssertionError if two calls with a request have different answers.

    The engine does the same. The usual causes are the clock, random numbers and variables that outlive a call.
    """
    first, second = (call(function, Pass(copy.deepcopy(request))) for _ in range(2))
    changes = _differences(first, second, "answer") + _differences(second, first, "answer")
    if changes:
        raise AssertionError("two calls with the same request have different answers:\n" + "\n".join(changes))


def _sorted(objects: Sequence[Object]) -> list[Object]:
    def key(o: Object) -> Any:
        return o["apiVersion"], o["kind"], o["metadata"].get("namespace") or "", o["metadata"]["name"]

    return sorted(objects, key=key)


def _differences(old: Any, new: Any, path: str) -> list[str]:
    """Returns what new has otherwise than old, a line for each path."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [d for k in new for d in _differences(old.get(k), new[k], f"{path}.{k}" if path else k)]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [d for i, (a, b) in enumerate(zip(old, new)) for d in _differences(a, b, f"{path}[{i}]")]
    return [] if old == new else [f"{path}: {old!r} -> {new!r}"]


def _selects(reference: Object, obj: Object, parent: Object) -> bool:
    """Reports whether a reference of the parent means an object."""
    if (reference["apiVersion"], reference["kind"]) != (obj["apiVersion"], obj["kind"]):
        return False
    place = obj["metadata"].get("namespace", "")
    if "name" in reference:
        here = reference.get("namespace") or parent["metadata"].get("namespace", "")
        return bool(obj["metadata"]["name"] == reference["name"] and place in ("", here))
    if reference.get("namespace", place) != place:
        return False
    labels = obj["metadata"].get("labels") or {}
    return all(_matches(r, labels) for r in re.split(r",(?![^(]*\))", reference.get("selector", "")) if r.strip())


def _matches(requirement: str, labels: dict[str, str]) -> bool:
    """Reports whether labels meet one requirement of a selector in the notation of kubectl."""
    match = re.fullmatch(r"\s*(!?)\s*([\w./-]+)\s*(?:(==?|!=)\s*([\w.-]*)|(in|notin)\s*\(([^)]*)\))?\s*", requirement)
    if not match:
        raise ValueError(f"the selector {requirement!r} is not understood")
    no, key, equals, value, within, values = match.groups()
    if not equals and not within:
        return (key in labels) != bool(no)
    allowed = [value] if equals else [v.strip() for v in values.split(",")]
    return (labels.get(key) in allowed) == ((equals or within) not in ("!=", "notin"))
