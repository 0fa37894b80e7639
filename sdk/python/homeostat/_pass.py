"""One reconcile of one object."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Callable, NamedTuple, Union

from ._json import Object, clean, parse_time

PROTOCOL = 1
"""The version of the protocol that this package speaks."""

RESERVED = frozenset(["Ready", "Reconciling", "Stalled", "Deleting", "Paused", "DryRun", "Contended"])
"""The conditions of the engine."""

Ready = Callable[[Object], Union[bool, str]]
"""A readiness check. It returns True, or False, or a text that says what is missing."""


class Problem(Exception):
    """The superclass of :class:`Wait` and :class:`Invalid`."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.json = _problem(reason, message)
        """The problem in the notation of the protocol."""


class Wait(Problem):
    """An external condition must be met first.

    The object becomes Reconciling=True with the reason, a CamelCase word, and the message, a sentence. It is no failure.
    With ``after`` the object is reconciled again after this time in seconds in any case.
    """

    def __init__(self, reason: str, message: str, after: float = 0) -> None:
        super().__init__(reason, message)
        if after > 0:
            self.json["afterSeconds"] = after


class Invalid(Problem):
    """The spec cannot be realized.

    The object becomes Stalled=True with the reason, a CamelCase word, and the message, a sentence that names the fix. It is
    not retried before the object or one of its references changes.
    """


class MissingReference(BaseException):
    """The request lacks a reference. The engine reads it and calls again.

    It is no Exception, so that a function that catches these does not catch it.
    """


class Child(NamedTuple):
    """A desired child."""

    desired: Object
    live: Object | None
    """The observed child, or None."""


Children = Sequence[Union[Child, Object]]
"""Children, or their names: dicts with apiVersion, kind and metadata.name."""


class Pass:
    """One reconcile of one object: its input, the observed state, and its record, the desired state.

    Objects are dicts with apiVersion, kind and metadata. Those of the input are the function's own copies: a change of them
    has no effect beyond the call. A namespace defaults to that of the object.
    """

    def __init__(self, request: Object) -> None:
        self.object: Object = request["object"]
        self.name: str = self.object["metadata"]["name"]
        self.namespace: str = self.object["metadata"].get("namespace", "")
        """The namespace of the object. It is empty for a cluster-scoped one."""
        self.spec: Object = self.object.get("spec") or {}
        self.now = parse_time(request["now"])
        """The time of this reconcile, in UTC. Use it instead of the clock to keep the function pure."""
        self.dry: bool = request.get("dry", False)
        """True if nothing will be carried out. Code that reaches another system must not change it then."""
        self.namespaces: list[str] = request.get("namespaces") or []
        """The namespaces that the operator is restricted to. None means all."""
        self.children: list[Object] = request.get("children") or []
        """The observed children."""
        self.status: Object = dict(self.object.get("status") or {})
        """The status to store, at first the present one, without conditions and observedGeneration."""
        self.status.pop("observedGeneration", None)
        self._conditions = {c["type"]: c for c in self.status.pop("conditions", []) if c["type"] not in RESERVED}
        self._request = request
        self._desired: list[Object] = []
        self._references: list[Object] = []
        self._missing = False
        self._answer: Object = {}

    def apply(
        self, obj: Object, *, create_only: bool = False, after: Children = (), after_created: Children = (),
        hold_back: Problem | None = None, unmanaged: Sequence[str] = (), hold_until: bool | None = None,
        retain: bool = False, on_immutable: str = "Stall", adopt: bool = False,
        adopt_if: Mapping[str, str] | None = None, conflict_reason: str = "", ready_when: Ready | None = None,
    ) -> Child:  # fmt: skip
        """Adds a child to the plan. Exactly its fields are enforced. Keys whose value is None are left out.

        Children are applied in the order of the calls. A child that is not in the plan is deleted.

        - ``create_only`` creates the child and never updates it, as for generated credentials.
        - ``after`` holds the child back until these are ready, ``after_created`` until they exist.
        - ``hold_back`` leaves the child as it is, and its reason becomes that of the object.
        - ``unmanaged`` leaves fields such as "spec.replicas" to others after the creation.
        - ``hold_until`` keeps the child by a finalizer until it is True, after the status has recorded the child.
        - ``retain`` makes the child outlive the object.
        - ``on_immutable`` is Stall, Recreate or RecreateOrphan: the reaction to a change of an immutable field.
        - ``adopt`` takes over an existing object without a controller, ``adopt_if`` one that has these labels.
        - ``conflict_reason`` is the reason of Ready if another object has the child's name.
        - ``ready_when`` replaces the readiness check.
        """
        name = _name(obj)
        label = f"{name['kind']} {name['name']}"
        desired: Object = clean(obj, label)
        live = self.live(name["apiVersion"], name["kind"], name["name"], name.get("namespace", ""))
        if on_immutable not in ("Stall", "Recreate", "RecreateOrphan"):
            raise ValueError(f"{label}: on_immutable is Stall, Recreate or RecreateOrphan, not {on_immutable!r}")
        child: Object = {
            "object": desired,
            "createOnly": create_only,
            "after": [_name(c) for c in after],
            "afterCreated": [_name(c) for c in after_created],
            "unmanaged": [unmanaged] if isinstance(unmanaged, str) else list(unmanaged),
            "retain": retain,
            "onImmutable": "" if on_immutable == "Stall" else on_immutable,
            "conflictReason": conflict_reason,
        }
        child = {key: value for key, value in child.items() if value}
        if hold_back is not None:
            child["holdBack"] = hold_back.json
        if hold_until is not None:
            child["holdUntil"] = hold_until
        if adopt_if is not None:
            child["adopt"] = {"matchLabels": dict(adopt_if)}
        elif adopt:
            child["adopt"] = {}
        if ready_when is not None:
            child["ready"] = _readiness(ready_when, live, label)
        if any(_name(c["object"]) == name for c in self._desired):
            raise ValueError(f"{label} is applied twice")
        self._desired.append(child)
        return Child(desired, live)

    def live(self, api_version: str, kind: str, name: str, namespace: str = "") -> Object | None:
        """Returns the observed child, or None. It finds only children of the object, of the kinds that the operator owns."""
        places = [namespace] if namespace else ["", self.namespace]
        for child in _of_kind(self.children, api_version, kind):
            if child["metadata"]["name"] == name and child["metadata"].get("namespace", "") in places:
                return child
        return None

    def observed(self, api_version: str, kind: str) -> list[Object]:
        """Returns the objects of an observed kind that belong to the object, ordered by namespace and name."""
        return _of_kind(self._request.get("observed") or [], api_version, kind)

    def ref(self, api_version: str, kind: str, name: str, namespace: str = "") -> Object:
        """Returns an object that the object refers to.

        A change of it causes a reconcile, until a call no longer asks for it. A missing object is a :class:`Wait` with the
        reason ReferenceNotFound.
        """
        found = self._reference(api_version, kind, namespace=namespace, name=name)
        if not found:
            where = namespace or self.namespace
            raise Wait("ReferenceNotFound", f"{kind} {name} does not exist" + (f" in namespace {where}" if where else ""))
        return found[0]

    def find(self, api_version: str, kind: str, selector: str = "", namespace: str = "") -> list[Object]:
        """Returns all objects of a kind with these labels, ordered by namespace and name.

        The selector has the notation of kubectl, for example "app=db,tier!=cache". Without a namespace, objects of all
        namespaces are found. A change of one of them causes a reconcile, until a call no longer asks for them.
        """
        return self._reference(api_version, kind, namespace=namespace, selector=selector)

    def set_condition(self, type: str, status: bool | str, reason: str, message: str = "") -> None:
        """Sets a condition that the operator defines. It stays until a call sets or removes it.

        The status is True, False or "Unknown".
        """
        if type in RESERVED:
            raise ValueError(f"condition {type} is written by the engine: use set_not_ready, set_suspended, Wait or Invalid")
        if str(status) not in ("True", "False", "Unknown"):
            raise ValueError(f"condition {type}: the status is True, False or Unknown, not {status!r}")
        self._conditions[type] = {"type": type, "status": str(status), "reason": _reason(reason), "message": message}

    def remove_condition(self, type: str) -> None:
        """Removes a condition that the operator defines."""
        self._conditions.pop(type, None)

    def set_not_ready(self, reason: str, message: str) -> None:
        """Sets Ready=False with this reason, even if all children are ready. The first call wins."""
        self._answer.setdefault("notReady", _problem(reason, message))

    def set_suspended(self, reason: str, message: str) -> None:
        """Sets Ready=False with this reason: the object is deliberately not working. The first call wins."""
        self._answer.setdefault("suspended", _problem(reason, message))

    def set_unfinished(self, reason: str, message: str) -> None:
        """Keeps an object that is being deleted for another call of finalize. The first call wins.

        The children of this call are applied, and the others are deleted.
        """
        self._answer.setdefault("unfinished", _problem(reason, message))

    def requeue_after(self, seconds: float) -> None:
        """Requests another reconcile after this time, in addition to those that events cause.

        The shortest time of several calls wins. Zero and less is none.
        """
        if seconds > 0:
            self._answer["requeueAfterSeconds"] = min(seconds, self._answer.get("requeueAfterSeconds", seconds))

    def event(self, reason: str, message: str) -> None:
        """Records a Normal event about the object. It is sent only if the status changes: an event reports a change."""
        self._answer.setdefault("events", []).append({"type": "Normal", **_problem(reason, message)})

    def warn(self, reason: str, message: str) -> None:
        """Records a Warning event. See :meth:`event`."""
        self._answer.setdefault("events", []).append({"type": "Warning", **_problem(reason, message)})

    def orphan_children(self, *kinds: tuple[str, str]) -> None:
        """Orphans children where they would be deleted: those of these kinds, or all.

        A kind is a pair of apiVersion and kind.
        """
        every = sorted({(c["apiVersion"], c["kind"]) for c in self.children})
        self._answer["orphan"] = [{"apiVersion": a, "kind": k} for a, k in kinds or every]

    def force_delete(self, child: Child | Object) -> None:
        """Deletes a terminating child with a grace period of zero."""
        self._answer.setdefault("forceDelete", []).append(_name(child))

    def answer(self, problem: Problem | str | None = None) -> Object:
        """Returns the answer to the request, which a text makes a failure. :func:`run` and :func:`dry` call it."""
        answer = {"protocol": PROTOCOL, "id": self._request.get("id", ""), "references": self._references}
        if isinstance(problem, str):
            return {**answer, "error": problem}
        if self._missing:
            return answer
        answer["status"] = clean(self.status, "status")
        answer["conditions"] = [
            {k: c[k] for k in ("type", "status", "reason", "message") if c.get(k)} for c in self._conditions.values()
        ]
        answer.update(clean(self._answer, "the pass"))
        if problem is None:
            answer["children"] = self._desired
        else:
            answer["wait" if isinstance(problem, Wait) else "invalid"] = problem.json
        return answer

    def _reference(self, api_version: str, kind: str, **where: str) -> list[Object]:
        """Returns the objects of a reference, and names it in the answer."""
        wanted = {"apiVersion": api_version, "kind": kind, **{key: value for key, value in where.items() if value}}
        if wanted not in self._references:
            self._references.append(wanted)
        for reference in self._request.get("references") or []:
            if {key: value for key, value in reference.items() if value and key != "objects"} == wanted:
                found: list[Object] = reference.get("objects") or []
                return found
        self._missing = True
        raise MissingReference


def _of_kind(objects: list[Object], api_version: str, kind: str) -> list[Object]:
    return [o for o in objects if o["apiVersion"] == api_version and o["kind"] == kind]


def _name(child: Child | Object) -> dict[str, str]:
    obj = child.desired if isinstance(child, Child) else child
    if not isinstance(obj, Mapping):
        raise TypeError(f"{obj!r} is no dict")
    metadata = obj.get("metadata") or {}
    if not obj.get("apiVersion") or not obj.get("kind") or not metadata.get("name"):
        raise ValueError(f"the object needs apiVersion, kind and metadata.name: {obj!r}")
    name = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": metadata["name"]}
    if metadata.get("namespace"):
        name["namespace"] = metadata["namespace"]
    return name


def _reason(reason: str) -> str:
    if not isinstance(reason, str) or not re.fullmatch(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", reason):
        raise ValueError(f"the reason {reason!r} is no CamelCase word")
    return reason


def _problem(reason: str, message: str) -> Object:
    if not isinstance(message, str) or not message:
        raise ValueError(f"the message for the reason {reason} is {message!r}: it is a sentence")
    return {"reason": _reason(reason), "message": message}


def _readiness(ready: Ready, live: Object | None, label: str) -> Object:
    if live is None:
        return {"ok": False, "message": "it does not exist"}
    result = ready(live)
    if isinstance(result, bool):
        return {"ok": result}
    if not isinstance(result, str):
        raise TypeError(f"{label}: ready_when returned {result!r} in place of a bool or a str")
    return {"ok": False, "message": result}
