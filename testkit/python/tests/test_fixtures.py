"""The fixtures, with the operator of the articles' kind that is correct: a Page has a ConfigMap and a Service."""

from __future__ import annotations

import pytest
from homeostat_testkit import Failure, Namespace, Operator, TestkitError, condition, exists, gone, ready, ref

from .conftest import OPERATORS

PAGE = {
    "apiVersion": "testkit.homeostat.dev/v1",
    "kind": "Page",
    "metadata": {"name": "home"},
    "spec": {"text": "hello", "port": 80},
}
CONFIG = ref("v1", "ConfigMap", "home")


def test_an_operator_reconciles(namespace: Namespace, operator: Operator) -> None:
    operator.start()
    page = namespace.apply(PAGE)
    namespace.eventually(page, ready(), condition("Ready", reason="Served"))
    assert namespace.eventually(CONFIG, exists())["data"] == {"index.html": "hello"}
    namespace.patch(page, {"spec": {"text": "bye"}})
    namespace.eventually(CONFIG, lambda o: o["data"]["index.html"] == "bye")
    namespace.idle()  # a request is recorded with its answer, and the watch may be earlier
    writes = [(r.verb, r.resource) for r in operator.writes]
    assert ("create", "configmaps") in writes and ("update", "configmaps") in writes
    before = len(operator.writes)
    namespace.consistently(CONFIG, exists(), seconds=0.3)
    assert len(operator.writes) == before
    namespace.delete(page)
    namespace.eventually(page, gone())


def test_an_operator_survives_its_end_at_a_request(namespace: Namespace, operator: Operator) -> None:
    namespace.kill_at("create", "configmaps")
    operator.start()
    namespace.apply(PAGE)
    operator.wait()
    namespace.eventually(CONFIG, exists())
    operator.start()
    namespace.eventually(PAGE, ready())


def test_faults_at_requests(namespace: Namespace, operator: Operator) -> None:
    with (
        namespace.refuse("create", "services", code=503, times=2) as refused,
        namespace.lose("create", "configmaps") as lost,
    ):
        operator.start()
        namespace.apply(PAGE)
        namespace.eventually(PAGE, ready())
    assert (refused.hits, lost.hits) == (2, 1)
    with namespace.outage():
        namespace.patch(PAGE, {"spec": {"text": "during the outage"}})
    assert namespace.break_watches("pages.testkit.homeostat.dev") == 1
    namespace.eventually(CONFIG, lambda o: o["data"]["index.html"] == "during the outage")
    with namespace.delay(0.1, "update", "configmaps"):
        namespace.patch(PAGE, {"spec": {"text": "late"}})
        namespace.eventually(CONFIG, lambda o: o["data"]["index.html"] == "late")


def test_objects(namespace: Namespace) -> None:
    one = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "labels": {"a": "b"}}, "data": {"k": "1"}}
    namespace.apply(one)
    assert namespace.get(one)["data"] == {"k": "1"}  # type: ignore[index]
    assert namespace.get(ref("v1", "ConfigMap", "two")) is None
    assert [o["metadata"]["name"] for o in namespace.list("v1", "ConfigMap", labels={"a": "b"})] == ["one"]
    namespace.patch(one, {"data": {"k": "2"}})
    namespace.eventually(one, lambda o: o["data"]["k"] == "2")
    namespace.delete(one)
    namespace.eventually(one, gone())
    assert [o and o["data"]["k"] for o in namespace.states(one)] == ["1", "2", None]
    scaler = {
        "apiVersion": "autoscaling/v1",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {"maxReplicas": 2, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
    }
    namespace.apply(scaler)
    with pytest.raises(TestkitError, match="recorded in autoscaling/v2, not in autoscaling/v1: name the object with that"):
        namespace.states(scaler)
    assert len(namespace.states({**scaler, "apiVersion": "autoscaling/v2"})) == 1
    assert namespace.apply(OPERATORS / "sample.yaml")["spec"]["text"] == "Hello"
    assert [o["metadata"] for o in namespace.read(OPERATORS / "sample.yaml")] == [{"name": "example"}]
    with open(namespace.kubeconfig) as file:
        assert namespace.name in file.read()
    assert "spec.port" in namespace.refused({**PAGE, "spec": {"text": "hello", "port": "many"}})


def test_failures_say_why(namespace: Namespace) -> None:
    def has_a_value(o: dict) -> None:  # type: ignore[type-arg]
        assert o["data"]["k"] == "2", "k is not 2"

    one = namespace.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"k": "1"}})
    with pytest.raises(Failure, match="k is not 2"):
        namespace.eventually(one, has_a_value, timeout=0.2)
    with pytest.raises(Failure, match="not: lambda o: o"):
        namespace.eventually(one, lambda o: o["data"]["k"] == "2", timeout=0.2)
    with pytest.raises(Failure, match="it exists and is not being deleted"):
        namespace.eventually(one, gone(), timeout=0.2)
    with pytest.raises(Failure, match="KeyError: 'x'"):
        namespace.eventually(one, lambda o: o["data"]["x"] == "2", timeout=0.2)
    with pytest.raises(Failure, match="no matches for kind"):
        namespace.apply({"apiVersion": "v1", "kind": "Nothing", "metadata": {"name": "one"}})
    with pytest.raises(Failure, match=r"nothing\.yaml"):
        namespace.read("nothing.yaml")
    with pytest.raises(ValueError, match=r"apiVersion, kind and metadata\.name"):
        namespace.delete({"kind": "ConfigMap"})


def test_checks_may_use_the_namespace(namespace: Namespace) -> None:
    one = namespace.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"k": "1"}})
    namespace.eventually(one, lambda o: namespace.get(o)["data"] == o["data"])  # type: ignore[index]


@pytest.mark.parametrize("number", range(50))
def test_a_namespace_is_cheap(namespace: Namespace, number: int) -> None:
    namespace.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"number-{number}"}})
