"""The function alone: no cluster, no engine."""

from datetime import datetime, timedelta, timezone

import homeostat as h
import pytest
from reconcile import finalize, reconcile, seconds

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
RESTART = {"initialBackoff": "1s", "maxBackoff": "1m", "resetAfter": "10m"}


def container(status=None, generation=1, **spec):
    return {
        "apiVersion": "immortalcontainer.flugel.it/v1alpha1",
        "kind": "ImmortalContainer",
        "metadata": {"name": "web", "namespace": "default", "generation": generation},
        "spec": {"image": "nginx", "restart": RESTART, **spec},
        "status": {"observedGeneration": 1, **(status or {})},
    }


def pod(uid="1", phase="Running", state=None, ready=True, **metadata):
    running = {"running": {"startedAt": "2025-12-31T23:00:00Z"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web-immortalpod",
            "namespace": "default",
            "uid": uid,
            "creationTimestamp": "2025-12-31T22:00:00Z",
            **metadata,
        },
        "spec": {"nodeName": "node-1"},
        "status": {"phase": phase, "containerStatuses": [{"name": "acontainer", "ready": ready, "state": state or running}]},
    }


def failed(uid="1"):
    end = {"reason": "OOMKilled", "exitCode": 137, "finishedAt": "2025-12-31T23:59:00Z"}
    return pod(uid, "Failed", {"terminated": end})


def dry(status, *live, **spec):
    return h.dry(reconcile, container(status, **spec), *live, now=NOW)


def test_the_first_pod():
    plan = dry({})
    assert plan.child("Pod", "web-immortalpod")["spec"]["containers"] == [{"name": "acontainer", "image": "nginx"}]
    assert plan.answer["children"][0]["holdUntil"] is False
    assert (plan.status["phase"], plan.answer["notReady"]["reason"]) == ("Pending", "Starting")


def test_a_pod_is_counted_once_and_then_released():
    plan = dry({}, pod())
    assert (plan.status["startTimes"], plan.status["podUID"], plan.status["currentPod"]) == (1, "1", "web-immortalpod")
    assert plan.answer["children"][0]["holdUntil"] is False  # the status is not stored yet
    assert (plan.status["phase"], plan.answer["events"][0]["reason"]) == ("Running", "Started")
    again = dry(plan.status, pod())
    assert again.status == plan.status and "events" not in again.answer
    assert again.answer["children"][0]["holdUntil"] is True


def test_a_pod_that_disappeared_is_recorded_with_its_successor():
    status = dry(dry({}, pod("1")).status, pod("2")).status
    assert (status["startTimes"], status["podUID"]) == (2, "2")
    assert status["lastTermination"] == {"podUID": "1", "reason": "Deleted", "finishedAt": "2025-12-31T22:00:00Z"}


def test_a_deleted_pod_is_replaced_at_once():
    plan = dry(dry({}, pod()).status, pod(deletionTimestamp="2026-01-01T00:00:00Z"))
    assert plan.children == [] and "nextStartTime" not in plan.status
    assert plan.status["lastTermination"]["reason"] == "Deleted"
    assert dry(plan.status).children


def test_the_backoff_grows_and_ends():
    status, delays = {}, []
    for number in range(1, 9):
        young = pod(str(number), state={"running": {"startedAt": "2025-12-31T23:58:00Z"}})
        plan = dry(dry(status, young).status, failed(str(number)))
        assert plan.children == [] and plan.status["phase"] == "BackingOff"
        assert plan.conditions["BackingOff"]["status"] == "True"
        delays.append(plan.answer["requeueAfterSeconds"])
        status = plan.status
    assert delays == [1, 2, 4, 8, 16, 32, 60, 60]
    assert status["lastTermination"]["exitCode"] == 137 and len(status["history"]) == 8
    assert dry(status).children == []
    later = h.dry(reconcile, container(status), now=NOW + timedelta(minutes=1))
    assert later.children and "nextStartTime" not in later.status
    assert dry(status, generation=2).children  # a change of the spec


def test_failures_are_forgotten_after_a_long_run():
    status = {"podUID": "1", "startTimes": 3, "consecutiveFailures": 2}
    assert dry(status, pod()).status["consecutiveFailures"] == 0
    young = pod(state={"running": {"startedAt": "2025-12-31T23:59:00Z"}})
    plan = dry(status, young)
    assert (plan.status["consecutiveFailures"], plan.answer["requeueAfterSeconds"]) == (2, 540)


def test_suspend():
    plan = dry({"podUID": "1", "startTimes": 1}, pod(), suspend=True)
    assert plan.children == [] and plan.status["lastTermination"]["reason"] == "Suspended"
    assert plan.answer["suspended"]["reason"] == plan.status["phase"] == "Suspended"
    assert dry(plan.status).status["startTimes"] == 1


@pytest.mark.parametrize(
    ("state", "reason", "phase"),
    [
        ({"waiting": {"reason": "ErrImagePull"}}, "ImagePullBackOff", "Pending"),
        ({"waiting": {"reason": "CrashLoopBackOff"}}, "CrashLoopBackOff", "BackingOff"),
        ({"waiting": {"reason": "ContainerCreating"}}, "Starting", "Pending"),
        ({"running": {"startedAt": "2025-12-31T23:00:00Z"}}, "ContainerNotReady", "Running"),
    ],
)
def test_a_pod_that_is_not_ready(state, reason, phase):
    plan = dry({}, pod(state=state, ready=False))
    assert (plan.answer["notReady"]["reason"], plan.status["phase"]) == (reason, phase)


def test_finalize():
    deleted = container(deletionPolicy="Orphan")
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert h.dry(finalize, deleted, pod()).answer["orphan"] == [{"apiVersion": "v1", "kind": "Pod"}]
    deleted["spec"]["deletionPolicy"] = "Delete"
    assert "orphan" not in h.dry(finalize, deleted, pod()).answer


@pytest.mark.parametrize(("text", "value"), [("1s", 1), ("1m30s", 90), ("1h0m0s", 3600), ("500ms", 0.5), ("1.5s", 1.5)])
def test_durations(text, value):
    assert seconds(text) == value
