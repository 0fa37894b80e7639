"""ImmortalContainer: each has exactly one pod, and the status counts every pod that was created for it."""

import math
import re
from datetime import timedelta
from typing import Optional, Tuple

import homeostat as h

CONTAINER_FIELDS = (
    "image", "imagePullPolicy", "command", "args", "workingDir", "env", "envFrom", "ports", "resources", "volumeMounts",
    "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "securityContext",
)  # fmt: skip
POD_FIELDS = (
    "volumes", "imagePullSecrets", "serviceAccountName", "nodeSelector", "tolerations", "affinity", "priorityClassName",
    "terminationGracePeriodSeconds",
)  # fmt: skip
HISTORY = 10


def reconcile(p: h.Pass) -> None:
    spec, status = p.object["spec"], p.status
    desired = pod_of(p.object)
    pod = p.live("v1", "Pod", desired["metadata"]["name"])
    counted = pod is not None and (pod["metadata"]["uid"] == status.get("podUID") or is_recorded(p, pod["metadata"]["uid"]))
    if p.object.get("status", {}).get("observedGeneration") != p.object["metadata"]["generation"]:
        status.update(consecutiveFailures=0, nextStartTime=None)  # a change of the spec ends the backoff
    if pod is not None:
        observe(p, pod)
    else:
        status.update(currentPod=None, nodeName=None, containerRestarts=None)
    wait = (h.parse_time(status["nextStartTime"]) - p.now).total_seconds() if status.get("nextStartTime") else 0
    ended = pod is not None and is_recorded(p, pod["metadata"]["uid"])
    if wait > 0:
        p.requeue_after(wait)
    elif pod is None:
        status["nextStartTime"] = None
    if not spec.get("suspend") and not ended and wait <= 0:
        p.apply(desired, hold_until=counted, on_immutable="Recreate", conflict_reason="PodNameConflict")
    report(p, pod, ended, wait)


def finalize(p: h.Pass) -> None:
    if p.object["spec"].get("deletionPolicy") == "Orphan":
        p.orphan_children()


def pod_of(ic: h.Object) -> h.Object:
    spec, name = ic["spec"], ic["metadata"]["name"]
    labels = {"controller": name, "app.kubernetes.io/name": "immortalcontainer", "app.kubernetes.io/instance": name}
    container = {"name": "acontainer", **{k: spec[k] for k in CONTAINER_FIELDS if k in spec}}
    pod = {"restartPolicy": "Always", "containers": [container], "securityContext": spec.get("podSecurityContext")}
    pod.update((k, spec[k]) for k in POD_FIELDS if k in spec)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name + "-immortalpod", "labels": labels}, "spec": pod}


def is_recorded(p: h.Pass, uid: str) -> bool:
    return any(end["podUID"] == uid for end in p.status.get("history", []))


def observe(p: h.Pass, pod: h.Object) -> None:
    """Counts the pod once, and records its end once."""
    status, uid, spec = p.status, pod["metadata"]["uid"], p.object["spec"]
    if uid != status.get("podUID") and not is_recorded(p, uid):
        if status.get("podUID") and not is_recorded(p, status["podUID"]):
            record(p, status["podUID"], "Deleted", pod["metadata"]["creationTimestamp"])
        status.update(podUID=uid, startTimes=status.get("startTimes", 0) + 1, nextStartTime=None)
        status.update(lastStartTime=pod["metadata"]["creationTimestamp"])
        p.event("Started", f"Pod {pod['metadata']['name']} was created: start {status['startTimes']}")
    state = container_status(pod)
    status.update(currentPod=pod["metadata"]["name"], nodeName=pod["spec"].get("nodeName"))
    status.update(containerRestarts=state.get("restartCount", 0))
    if is_recorded(p, uid):
        return
    phase = pod.get("status", {}).get("phase")
    if "deletionTimestamp" in pod["metadata"]:
        record(p, uid, "Deleted", h.timestamp(p.now))
    elif phase in ("Failed", "Succeeded"):
        run = state.get("state", {}).get("terminated", {})
        reason = pod["status"].get("reason") or run.get("reason") or ("Error" if phase == "Failed" else "Completed")
        record(p, uid, reason, run.get("finishedAt") or h.timestamp(p.now), run.get("exitCode"))
        back_off(p)
    elif spec.get("suspend"):
        record(p, uid, "Suspended", h.timestamp(p.now))


def record(p: h.Pass, uid: str, reason: str, at: str, exit_code: Optional[int] = None) -> None:
    end = {"podUID": uid, "reason": reason, "finishedAt": at}
    if exit_code is not None:
        end["exitCode"] = exit_code  # type: ignore[assignment]
    p.status.update(lastTermination=end, history=[end, *p.status.get("history", [])][:HISTORY])
    p.event("Ended", f"The pod ended: {reason}")


def back_off(p: h.Pass) -> None:
    """Delays the next start, twice as long after each pod that ended by itself."""
    restart = p.object["spec"].get("restart", {})
    failures = p.status.get("consecutiveFailures", 0) + 1
    longest, first = seconds(restart.get("maxBackoff", "5m")), seconds(restart.get("initialBackoff", "1s"))
    delay = min(longest, first * 2 ** min(failures - 1, 30))
    next_start = p.now + timedelta(seconds=delay) + timedelta(microseconds=999999)  # rounded up
    p.status.update(consecutiveFailures=failures, nextStartTime=h.timestamp(next_start))


def seconds(duration: str) -> float:
    units = {"h": 3600, "m": 60, "s": 1, "ms": 0.001}
    return math.fsum(float(n) * units[unit] for n, unit in re.findall(r"([0-9.]+)(ms|h|m|s)", duration))


def container_status(pod: h.Object) -> h.Object:
    return next((c for c in pod.get("status", {}).get("containerStatuses", []) if c["name"] == "acontainer"), {})


def report(p: h.Pass, pod: Optional[h.Object], ended: bool, wait: float) -> None:
    phase, reason, message = explain(p, pod, ended, wait)
    p.status["phase"] = phase
    if phase == "Suspended":
        p.set_suspended(reason, message)
    elif reason != "Running":
        p.set_not_ready(reason, message)
    p.set_condition("PodRunning", phase == "Running", reason, message)
    p.set_condition("BackingOff", phase == "BackingOff", reason if phase == "BackingOff" else "NoDelay")


def explain(p: h.Pass, pod: Optional[h.Object], ended: bool, wait: float) -> Tuple[str, str, str]:
    """Returns the phase, and a reason and a message for it."""
    if p.object["spec"].get("suspend"):
        return "Suspended", "Suspended", "The container is stopped, because spec.suspend is true."
    if wait > 0:
        return "BackingOff", "BackingOff", f"The next pod starts at {p.status['nextStartTime']}."
    if pod is None:
        return "Pending", "Starting", "The pod is being created."
    if ended:
        return "Pending", "Terminating", "The pod is ending; the next one starts when it is gone."
    state = container_status(pod)
    if "running" in state.get("state", {}):
        reset_failures(p, state["state"]["running"]["startedAt"])
        if state.get("ready"):
            return "Running", "Running", ""
        return "Running", "ContainerNotReady", "The container is not ready."
    waiting = state.get("state", {}).get("waiting", {}).get("reason", "")
    if waiting == "CrashLoopBackOff":
        return "BackingOff", waiting, "The container keeps ending; the node restarts it after a growing pause."
    if waiting in ("ErrImagePull", "ImagePullBackOff"):  # they alternate
        return "Pending", "ImagePullBackOff", f"Image {p.object['spec']['image']} cannot be pulled."
    return "Pending", waiting if waiting not in ("", "ContainerCreating") else "Starting", "The container is starting."


def reset_failures(p: h.Pass, started: str) -> None:
    """Ends the series of failures when the container has run for spec.restart.resetAfter."""
    if p.status.get("consecutiveFailures"):
        reset_after = seconds(p.object["spec"].get("restart", {}).get("resetAfter", "10m"))
        rest = reset_after - (p.now - h.parse_time(started)).total_seconds()
        p.requeue_after(rest)
        if rest <= 0:
            p.status["consecutiveFailures"] = 0


if __name__ == "__main__":
    h.run(reconcile=reconcile, finalize=finalize)
