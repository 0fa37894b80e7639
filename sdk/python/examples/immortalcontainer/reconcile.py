"""ImmortalContainer: each has exactly one pod, and the status counts every pod that was created for it."""

import math
import re
from datetime import timedelta
from typing import Optional

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
    status, pod = p.status, p.live("v1", "Pod", p.name + "-immortalpod")
    if h.get(p.object, "status", "observedGeneration") != p.object["metadata"]["generation"]:
        status.update(consecutiveFailures=0, nextStartTime=None)  # a change of the spec ends the backoff
    is_stored = pod is not None and is_counted(p, pod["metadata"]["uid"])
    if pod is not None:
        observe(p, pod)
    status.update(currentPod=h.get(pod, "metadata", "name"), nodeName=h.get(pod, "spec", "nodeName"))
    status["containerRestarts"] = h.get(container_status(pod), "restartCount", default=0 if pod else None)
    wait = (h.parse_time(status["nextStartTime"]) - p.now).total_seconds() if status.get("nextStartTime") else 0
    p.requeue_after(wait)
    if wait <= 0 and pod is None:
        status["nextStartTime"] = None
    ended = pod is not None and is_recorded(p, pod["metadata"]["uid"])
    if not p.spec.get("suspend") and not ended and wait <= 0:
        p.apply(pod_of(p), hold_until=is_stored, on_immutable="Recreate", conflict_reason="PodNameConflict")
    report(p, pod, ended, wait)


def finalize(p: h.Pass) -> None:
    if p.spec.get("deletionPolicy") == "Orphan":
        p.orphan_children()


def pod_of(p: h.Pass) -> h.Object:
    labels = {"controller": p.name, "app.kubernetes.io/name": "immortalcontainer", "app.kubernetes.io/instance": p.name}
    container: h.Object = {"name": "acontainer", **{field: p.spec.get(field) for field in CONTAINER_FIELDS}}
    spec: h.Object = {"restartPolicy": "Always", "containers": [container]}
    spec.update({field: p.spec.get(field) for field in POD_FIELDS}, securityContext=p.spec.get("podSecurityContext"))
    return h.new("v1", "Pod", p.name + "-immortalpod", labels=labels, spec=spec)


def is_recorded(p: h.Pass, uid: str) -> bool:
    return any(end["podUID"] == uid for end in p.status.get("history", []))


def is_counted(p: h.Pass, uid: str) -> bool:
    return p.status.get("podUID") == uid or is_recorded(p, uid)


def observe(p: h.Pass, pod: h.Object) -> None:
    """Counts the pod once, and records its end once."""
    status, uid, created = p.status, pod["metadata"]["uid"], pod["metadata"]["creationTimestamp"]
    if not is_counted(p, uid):
        if status.get("podUID") and not is_recorded(p, status["podUID"]):
            record(p, status["podUID"], "Deleted", created)
        status.update(podUID=uid, startTimes=status.get("startTimes", 0) + 1, lastStartTime=created, nextStartTime=None)
        p.event("Started", f"Pod {pod['metadata']['name']} was created: start {status['startTimes']}")
    phase = h.get(pod, "status", "phase")
    if is_recorded(p, uid):
        return
    if "deletionTimestamp" in pod["metadata"]:
        record(p, uid, "Deleted")
    elif phase in ("Failed", "Succeeded"):
        end = h.get(container_status(pod), "state", "terminated", default={})
        reason = h.get(pod, "status", "reason") or end.get("reason") or ("Error" if phase == "Failed" else "Completed")
        record(p, uid, reason, end.get("finishedAt"), end.get("exitCode"))
        back_off(p)
    elif p.spec.get("suspend"):
        record(p, uid, "Suspended")


def record(p: h.Pass, uid: str, reason: str, at: Optional[str] = None, exit_code: Optional[int] = None) -> None:
    end = {"podUID": uid, "reason": reason, "finishedAt": at or h.timestamp(p.now), "exitCode": exit_code}
    p.status.update(lastTermination=end, history=[end, *p.status.get("history", [])][:HISTORY])
    p.event("Ended", f"The pod ended: {reason}")


def back_off(p: h.Pass) -> None:
    """Delays the next start, twice as long after each pod that ended by itself."""
    restart, failures = p.spec.get("restart", {}), p.status.get("consecutiveFailures", 0) + 1
    longest, first = seconds(restart.get("maxBackoff", "5m")), seconds(restart.get("initialBackoff", "1s"))
    delay = min(longest, first * 2 ** min(failures - 1, 30))
    next_start = p.now + timedelta(seconds=delay) + timedelta(microseconds=999999)  # rounded up
    p.status.update(consecutiveFailures=failures, nextStartTime=h.timestamp(next_start))


def seconds(duration: str) -> float:
    units = {"h": 3600, "m": 60, "s": 1, "ms": 0.001}
    return math.fsum(float(n) * units[unit] for n, unit in re.findall(r"([0-9.]+)(ms|h|m|s)", duration))


def container_status(pod: Optional[h.Object]) -> h.Object:
    return next((c for c in h.get(pod, "status", "containerStatuses", default=[]) if c["name"] == "acontainer"), {})


def report(p: h.Pass, pod: Optional[h.Object], ended: bool, wait: float) -> None:
    phase, reason, message = explain(p, pod, ended, wait)
    p.status["phase"] = phase
    if phase == "Suspended":
        p.set_suspended(reason, message)
    elif reason != "Running":
        p.set_not_ready(reason, message)
    p.set_condition("PodRunning", phase == "Running", reason, message)
    p.set_condition("BackingOff", phase == "BackingOff", reason if phase == "BackingOff" else "NoDelay")


def explain(p: h.Pass, pod: Optional[h.Object], ended: bool, wait: float) -> tuple[str, str, str]:
    """Returns the phase, and a reason and a message for it."""
    if p.spec.get("suspend"):
        return "Suspended", "Suspended", "The container is stopped, because spec.suspend is true."
    if wait > 0:
        return "BackingOff", "BackingOff", f"The next pod starts at {p.status['nextStartTime']}."
    if pod is None:
        return "Pending", "Starting", "The pod is being created."
    if ended:
        return "Pending", "Terminating", "The pod is ending; the next one starts when it is gone."
    container = container_status(pod)
    if h.get(container, "state", "running"):
        reset_failures(p, container["state"]["running"]["startedAt"])
        if container.get("ready"):
            return "Running", "Running", ""
        return "Running", "ContainerNotReady", "The container is not ready."
    waiting = h.get(container, "state", "waiting", "reason", default="ContainerCreating")
    if waiting == "CrashLoopBackOff":
        return "BackingOff", waiting, "The container keeps ending; the node restarts it after a growing pause."
    if waiting in ("ErrImagePull", "ImagePullBackOff"):  # they alternate
        return "Pending", "ImagePullBackOff", f"Image {p.spec['image']} cannot be pulled."
    return "Pending", "Starting" if waiting == "ContainerCreating" else waiting, "The container is starting."


def reset_failures(p: h.Pass, started: str) -> None:
    """Ends the series of failures when the container has run for spec.restart.resetAfter."""
    if p.status.get("consecutiveFailures"):
        reset_after = seconds(h.get(p.spec, "restart", "resetAfter", default="10m"))
        rest = reset_after - (p.now - h.parse_time(started)).total_seconds()
        p.requeue_after(rest)
        if rest <= 0:
            p.status["consecutiveFailures"] = 0


if __name__ == "__main__":
    h.run(reconcile=reconcile, finalize=finalize)
