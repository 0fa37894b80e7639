"""Each bug of the articles' operators is found by a test of a few lines: here the last line of each test fails."""

from __future__ import annotations

from typing import Callable

import pytest
from homeostat_testkit import Failure, Namespace, Operator, ready, ref

PAGE = {
    "apiVersion": "testkit.homeostat.dev/v1",
    "kind": "Page",
    "metadata": {"name": "home"},
    "spec": {"text": "hello", "port": 80},
}
CONFIG = ref("v1", "ConfigMap", "home")
Broken = Callable[[str], Operator]


def test_create_only(namespace: Namespace, broken: Broken) -> None:
    broken("create_only")
    namespace.eventually(namespace.apply(PAGE), ready())
    namespace.patch(PAGE, {"spec": {"text": "changed"}})
    with pytest.raises(Failure, match="not: lambda o"):
        namespace.eventually(CONFIG, lambda o: o["data"]["index.html"] == "changed", timeout=3)


def test_already_exists_taken_for_success(namespace: Namespace, broken: Broken) -> None:
    namespace.apply({**CONFIG, "data": {"index.html": "of another user"}})
    broken("already_exists")
    namespace.apply(PAGE)
    with pytest.raises(Failure, match="it changed"):
        namespace.consistently(PAGE, lambda o: not is_ready(o), seconds=3)


def test_dead_watch(namespace: Namespace, broken: Broken) -> None:
    broken("watch_dies")
    namespace.eventually(namespace.apply(PAGE), ready())
    namespace.idle()
    assert namespace.break_watches("pages.testkit.homeostat.dev") == 1
    namespace.patch(PAGE, {"spec": {"text": "changed"}})
    with pytest.raises(Failure, match="not: lambda o"):
        namespace.eventually(CONFIG, lambda o: o["data"]["index.html"] == "changed", timeout=3)


def test_count_lost_in_a_crash(namespace: Namespace, broken: Broken) -> None:
    operator = broken("count_in_memory")
    namespace.eventually(namespace.apply(PAGE), lambda o: o["status"]["revision"] == 1)
    operator.kill()
    namespace.patch(PAGE, {"spec": {"text": "changed"}})
    operator.start()
    with pytest.raises(Failure, match="not: lambda o"):
        namespace.eventually(PAGE, lambda o: o["status"]["revision"] == 2, timeout=3)


def is_ready(o: dict) -> bool:  # type: ignore[type-arg]
    return any(c["type"] == "Ready" and c["status"] == "True" for c in o.get("status", {}).get("conditions", []))
