"""Pass, dry and check_pure."""

from __future__ import annotations

import copy
import itertools
import re
from datetime import datetime, timedelta, timezone
from typing import Any, Callable

import homeostat as h
import pytest

WEB: h.Object = {
    "apiVersion": "example.com/v1",
    "kind": "Web",
    "metadata": {"name": "shop", "namespace": "default", "labels": {"app": "shop"}},
    "spec": {"image": "nginx", "replicas": 2},
}


def config(name: str = "shop", **fields: Any) -> h.Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **fields}


def request(obj: h.Object = WEB, **fields: Any) -> h.Object:
    return {"protocol": 1, "id": "1", "call": "reconcile", "object": obj, "now": "2026-01-02T03:04:05Z", **fields}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [{"b": {1, 2}}]}, r"ConfigMap shop.data.a\[0\].b: {1, 2} is no JSON value"),
        (datetime(2026, 1, 1), r"ConfigMap shop.data: datetime.* is no JSON value: use homeostat.timestamp"),
        ([None], r"ConfigMap shop.data\[0\]: None is no JSON value"),
        ({1: "a"}, r"ConfigMap shop.data: the key 1 is not a str"),
        (float("nan"), r"ConfigMap shop.data: nan is no number in Kubernetes"),
        (2**63, r"ConfigMap shop.data: 9223372036854775808 is no number in Kubernetes"),
    ],
)
def test_values_that_are_not_json(value: Any, message: str) -> None:
    p = h.Pass(request())
    with pytest.raises((TypeError, ValueError), match=message):
        p.apply(config(data=value))
    assert p.answer()["children"] == []


def test_values() -> None:
    p = h.Pass(request())
    given = config(data={"a": None, "b": (1, True, 2.5, "x", [], {"c": None}), "d": -(2**63)})
    child = p.apply(given)
    given["data"]["d"] = 0
    assert child.desired == config(data={"b": [1, True, 2.5, "x", [], {}], "d": -(2**63)})
    assert child.live is None
    p.status.update(a=None, b=1)
    assert p.answer()["status"] == {"b": 1}


def test_objects() -> None:
    labels = {"app": "shop"}
    assert h.new("v1", "ConfigMap", "shop", data={"a": "b"}) == config(data={"a": "b"})
    full = h.new("v1", "Service", "shop", namespace="web", labels=labels, annotations={"a": "b"}, spec={})
    assert full["metadata"] == {"name": "shop", "namespace": "web", "labels": labels, "annotations": {"a": "b"}}
    p = h.Pass(request())
    assert (p.name, p.namespace, p.spec["replicas"]) == ("shop", "default", 2)
    p = h.Pass(request({"apiVersion": "example.com/v1", "kind": "Realm", "metadata": {"name": "shop"}}))
    assert (p.name, p.namespace, p.spec) == ("shop", "", {})


def test_fields() -> None:
    pod = {"status": {"phase": None, "restarts": 0, "containers": [{"name": "main"}]}}
    assert h.get(pod, "status", "containers", 0, "name") == "main"
    assert h.get(pod, "status", "restarts", default=1) == 0
    paths: list[list[str | int]] = [["status", "phase"], ["status", "containers", 1], ["status", "restarts", 0]]
    for path in paths:
        assert (h.get(pod, *path), h.get(pod, *path, default="none")) == (None, "none")
    assert h.get(None, "status", default={}) == {}
    assert h.digest({"a": 1, "b": [2]}) == h.digest({"b": [2], "a": 1}) != h.digest({"a": 1, "b": [3]})
    assert h.digest("abc") == "ba7816bf8f01cfea"  # as sha256sum


# Each call and the error that says what is wrong with it.
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: p.apply({"kind": "ConfigMap"}), "the object needs apiVersion, kind and metadata.name"),
        (lambda p: p.apply("x.yaml"), "'x.yaml' is no dict"),
        (lambda p: (p.apply(config()), p.apply(config())), "ConfigMap shop is applied twice"),
        (lambda p: p.apply(config(), on_immutable="recreate"), "on_immutable is Stall, Recreate or RecreateOrphan, not"),
        (lambda p: p.apply(config(), after=["shop"]), "'shop' is no dict"),
        (lambda p: p.set_condition("Ready", True, "A"), "condition Ready is written by the engine"),
        (lambda p: p.set_condition("A", "true", "A"), "the status is True, False or Unknown, not 'true'"),
        (lambda p: p.set_condition("A", True, "not a word"), "the reason 'not a word' is no CamelCase word"),
        (lambda p: h.Wait("A", ""), "the message for the reason A is ''"),
        (lambda p: p.event("A", None), "the message for the reason A is None"),
    ],
)
def test_mistakes(call: Callable[[h.Pass], Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError)) as e:
        call(h.Pass(request()))
    assert re.search(message, f"{type(e.value).__name__}: {e.value}")


def test_ready_when_needs_a_result() -> None:
    p = h.Pass(request(children=[config()]))
    with pytest.raises(TypeError, match="ConfigMap shop: ready_when returned None"):
        p.apply(config(), ready_when=lambda live: None)  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize(
    ("result", "answer"),
    [
        (True, {"ok": True}),
        (False, {"ok": False}),
        ("1 of 2 are ready", {"ok": False, "message": "1 of 2 are ready"}),
    ],
)
def test_ready_when(result: Any, answer: h.Object) -> None:
    p = h.Pass(request(children=[config(data={"a": "b"})]))
    assert p.apply(config(), ready_when=lambda live: result if live["data"] else "").live == config(data={"a": "b"})
    p.apply(config("new"), ready_when=lambda live: True)
    children = p.answer()["children"]
    assert [c["ready"] for c in children] == [answer, {"ok": False, "message": "it does not exist"}]


def test_live() -> None:
    here, there = config("a"), config("b")
    here["metadata"]["namespace"] = "default"
    there["metadata"]["namespace"] = "shared"
    p = h.Pass(request(children=[here, there], observed=[config("c")]))
    assert p.live("v1", "ConfigMap", "a") is here
    assert p.live("v1", "ConfigMap", "a", "shared") is None
    assert p.live("v1", "ConfigMap", "b") is None
    assert p.live("v1", "ConfigMap", "b", namespace="shared") is there
    assert p.live("v1", "Secret", "a") is None
    assert (p.observed("v1", "ConfigMap"), p.observed("v1", "Pod")) == ([config("c")], [])


def test_conditions_stay() -> None:
    old = [{"type": t, "status": "True", "reason": "Old", "message": "", "lastTransitionTime": "x"} for t in "ABC"]
    old[2]["type"] = "Ready"
    p = h.Pass(request({**WEB, "status": {"conditions": old, "observedGeneration": 1, "phase": "x"}}))
    assert p.status == {"phase": "x"}
    p.set_condition("A", False, "New", "text")
    p.set_condition("C", "Unknown", "New")
    p.remove_condition("B")
    assert p.answer()["conditions"] == [
        {"type": "A", "status": "False", "reason": "New", "message": "text"},
        {"type": "C", "status": "Unknown", "reason": "New"},
    ]


def test_the_first_reason_wins_and_the_shortest_time() -> None:
    p = h.Pass(request())
    for seconds in (0, 20, 10, -1, 30):
        p.requeue_after(seconds)
    p.set_not_ready("First", "one")
    p.set_not_ready("Second", "two")
    answer = p.answer()
    assert (answer["requeueAfterSeconds"], answer["notReady"]["reason"]) == (10, "First")
    p.requeue_after(float("nan"))
    assert p.answer()["requeueAfterSeconds"] == 10


def test_orphan_children() -> None:
    p = h.Pass(request(children=[config("b"), config("a"), {**WEB, "kind": "Other"}]))
    p.orphan_children()
    assert p.answer()["orphan"] == [
        {"apiVersion": "example.com/v1", "kind": "Other"},
        {"apiVersion": "v1", "kind": "ConfigMap"},
    ]


def test_times() -> None:
    assert h.parse_time("2026-01-02T03:04:05Z") == datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
    assert h.parse_time("2026-01-02T03:04:05.12Z").microsecond == 120000
    assert h.parse_time("2026-01-02T03:04:05.123456789Z").microsecond == 123456
    assert h.timestamp(datetime(2026, 1, 2, 3, 4, 5, 6, timezone(timedelta(hours=1)))) == "2026-01-02T02:04:05Z"
    with pytest.raises(ValueError, match="no time zone"):
        h.timestamp(datetime(2026, 1, 2))


def copy_key(p: h.Pass) -> None:
    try:
        key = p.ref("v1", "Secret", "key")
    except h.Wait as e:
        raise h.Invalid("Unreadable", "the Secret cannot be read: " + str(e)) from e
    except Exception as e:  # a reference that is to be read is none: see MissingReference
        raise RuntimeError from e
    every = [o["metadata"]["name"] for o in p.find("v1", "ConfigMap", selector="app in (shop, web),!hidden,tier!=cache")]
    p.apply(config("copy", data={"key": key["data"]["key"], "every": ",".join(every)}))
    p.status["revision"] = key["metadata"]["resourceVersion"]
    p.set_condition("Copied", True, "Copied", "the key is copied")


SECRET: h.Object = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "key", "namespace": "default", "resourceVersion": "7"},
}


def labelled(name: str, namespace: str = "default", **labels: str) -> h.Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace, "labels": labels}}


def test_dry_with_references() -> None:
    plan = h.dry(
        copy_key,
        WEB,
        config("copy", data={"key": "old", "every": "a,b"}),
        config("rest"),
        references=[
            {**SECRET, "data": {"key": "new"}},
            labelled("b", app="web"),
            labelled("a", "another", app="shop", tier="x"),
            labelled("c", app="shop", hidden=""),
            labelled("d", app="shop", tier="cache"),
            labelled("e"),
        ],
    )
    assert plan.child("ConfigMap", "copy")["data"] == {"key": "new", "every": "a,b"}
    assert (plan.wait, plan.invalid, plan.conditions["Copied"]["status"]) == (None, None, "True")
    assert str(plan) == (
        "Web shop\n"
        "  update ConfigMap copy\n"
        "      data.key: 'old' -> 'new'\n"
        "  delete ConfigMap rest\n"
        "  Copied=True (Copied): the key is copied\n"
        "  status.revision: 7\n"
    )
    with pytest.raises(LookupError, match="ConfigMap other is not in the plan"):
        plan.child("ConfigMap", "other")


def test_dry_without_the_reference() -> None:
    elsewhere = {**SECRET, "metadata": {"name": "key", "namespace": "other"}}
    plan = h.dry(copy_key, WEB, config("rest"), references=[elsewhere])
    assert plan.invalid and "Secret key does not exist in namespace default" in plan.invalid["message"]
    assert "delete" not in str(plan)


def test_a_reference_is_named_once() -> None:
    def twice(p: h.Pass) -> None:
        assert p.ref("v1", "Secret", "key") == p.ref("v1", "Secret", "key") == SECRET

    assert len(h.dry(twice, WEB, references=[SECRET]).answer["references"]) == 1


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("", ["a", "b", "c"]),
        ("app", ["a", "b"]),
        ("!app", ["c"]),
        ("app=x", ["a"]),
        ("app==x", ["a"]),
        ("app!=x", ["b", "c"]),
        ("app in (x, y),example.com/tier", ["b"]),
        ("app notin (x)", ["b", "c"]),
    ],
)
def test_selectors(selector: str, names: Any) -> None:
    def find(p: h.Pass) -> None:
        p.status["names"] = [o["metadata"]["name"] for o in p.find("v1", "ConfigMap", selector, namespace="default")]

    second = labelled("b", app="y", **{"example.com/tier": "z"})
    objects = [labelled("c"), second, labelled("a", app="x"), labelled("d", "other")]
    assert h.dry(find, WEB, references=objects).status == {"names": names}


def test_a_selector_that_is_none() -> None:
    def find(p: h.Pass) -> None:
        p.find("v1", "ConfigMap", "a b")

    with pytest.raises(ValueError, match="the selector 'a b' is not understood"):
        h.dry(find, WEB, references=[config()])


def test_dry_calls_finalize_and_raises() -> None:
    deleted = {**WEB, "metadata": {**WEB["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    now = datetime(2026, 1, 2, tzinfo=timezone.utc)
    plan = h.dry(lambda p: p.set_not_ready("Busy", p.now.isoformat()), deleted, config(), now=now)
    assert str(plan) == "Web shop\n  notReady: Busy: 2026-01-02T00:00:00+00:00\n"
    plan = h.dry(lambda p: p.set_unfinished("Draining", "2 pods are left"), deleted, config())
    assert "unfinished: Draining: 2 pods are left" in str(plan) and "delete ConfigMap" in str(plan)
    with pytest.raises(ZeroDivisionError):
        h.dry(lambda p: p.requeue_after(1 / 0), WEB)


def test_the_text_of_a_plan_follows_the_options() -> None:
    def options(p: h.Pass) -> None:
        p.apply(config("once", data={"a": "2"}), create_only=True)
        p.apply(config("scaled", data={"a": "2", "b": "2"}), unmanaged=["data.a"])
        p.apply(config("held", data={"a": "2"}), hold_back=h.Wait("Busy", "it is in use"))
        p.set_suspended("Off", "it is switched off")
        p.orphan_children(("v1", "Secret"))

    there = config("rest")
    there["metadata"]["namespace"] = "shared"
    names = ("once", "scaled", "held")
    live = [config(name, data={"a": "1"}) for name in names]
    plan = h.dry(options, WEB, *live, there, {**config("left"), "kind": "Secret"})
    assert str(plan) == (
        "Web shop\n"
        "  suspended: Off: it is switched off\n"
        "  update ConfigMap scaled\n"
        "      data.b: None -> '2'\n"
        "  hold back ConfigMap held: Busy: it is in use\n"
        "  delete ConfigMap rest in shared\n"
        "  orphan Secret left\n"
    )


def test_the_object_is_not_changed() -> None:
    def change(p: h.Pass) -> None:
        p.object["spec"].clear()
        p.children.clear()

    before = copy.deepcopy(WEB)
    h.dry(change, WEB, config())
    assert before == WEB


def test_check_pure() -> None:
    numbers = itertools.count()

    def impure(p: h.Pass) -> None:
        p.apply(config(data={"a": [{"number": next(numbers)}]}))

    h.check_pure(copy_key, request())
    with pytest.raises(AssertionError, match=re.escape("children[0].object.data.a[0].number: 0 -> 1")):
        h.check_pure(impure, request())
