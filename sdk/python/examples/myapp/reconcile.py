"""MyApp: a Deployment with a volume and, on request, a Service, an Ingress and a HorizontalPodAutoscaler."""

from typing import Any, Dict, List, Optional, Tuple

import homeostat as h
from children import claim_spec, deployment_spec, ingress_spec, scaler_spec, service_spec


def reconcile(p: h.Pass) -> None:
    spec = p.object["spec"]
    if spec.get("paused"):
        raise h.Wait("Paused", "spec.paused is true, so that nothing is changed")
    if spec.get("podTemplate"):
        raise h.Invalid("NotSupported", "this operator has no spec.podTemplate: remove it")
    claim, volumes = apply_volume(p)
    deployment = p.apply(
        child(p, "apps/v1", "Deployment", deployment_spec(p.object, claim)),
        after_created=volumes,
        unmanaged=[] if "replicas" in spec and "autoscaling" not in spec else ["spec.replicas"],  # others scale it
        adopt=adopts(p),
    )
    if spec["service"].get("enabled") and spec["ports"]:
        service = p.apply(child(p, "v1", "Service", service_spec(p.object)), adopt=adopts(p))
        if spec["ingress"].get("enabled"):
            ingress = child(p, "networking.k8s.io/v1", "Ingress", ingress_spec(p.object))
            p.apply(ingress, after_created=[service], adopt=adopts(p))
    if "autoscaling" in spec:
        scaler = child(p, "autoscaling/v2", "HorizontalPodAutoscaler", scaler_spec(p.object))
        p.apply(scaler, after_created=[deployment], adopt=adopts(p))
    report(p, deployment.live or {}, claim)


def child(p: h.Pass, api_version: str, kind: str, spec: h.Object, suffix: str = "") -> h.Object:
    name = p.object["metadata"]["name"]
    metadata = {"name": name + suffix, "labels": {"app": name}}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def adopts(p: h.Pass) -> bool:
    return (p.object["metadata"].get("annotations") or {}).get("mycompany.com/adopt") == "true"


def apply_volume(p: h.Pass) -> Tuple[Optional[h.Object], List[h.Child]]:
    """Returns the claim to mount, or None, and the own claim, which stays when the storage is disabled."""
    storage, name = p.object["spec"]["storage"], p.object["metadata"]["name"]
    enabled = storage.get("enabled", True)
    if storage.get("existingClaim"):
        return (p.ref("v1", "PersistentVolumeClaim", storage["existingClaim"]) if enabled else None), []
    live = p.live("v1", "PersistentVolumeClaim", name + "-data")
    if live is None and not enabled:
        return None, []
    claim = p.apply(
        child(p, "v1", "PersistentVolumeClaim", claim_spec(p.object, live), "-data"),
        create_only=live is None,  # the size of an adopted claim is read first
        retain=p.object["spec"].get("deletionPolicy") == "RetainData",
        adopt_if={} if adopts(p) else {"app": name, "app.kubernetes.io/managed-by": "myapp-python"},
    )
    return (claim.live or claim.desired) if enabled else None, [claim]


def report(p: h.Pass, deployment: h.Object, claim: Optional[h.Object]) -> None:
    state: Dict[str, Any] = deployment.get("status", {})
    for field in ("replicas", "readyReplicas", "updatedReplicas"):
        p.status[field] = state.get(field, 0)
    p.status["selector"] = "app=" + p.object["metadata"]["name"]
    conditions = {c["type"]: c for c in state.get("conditions", [])}
    for type in ("Available", "Progressing"):
        c = conditions.get(type, {"status": "False", "reason": "NoDeployment", "message": "there is no Deployment yet"})
        p.set_condition(type, c["status"], c["reason"], c.get("message", ""))
    bound = (claim or {}).get("status", {})
    phase = bound.get("phase", "Pending") if claim else "NoVolume"
    p.set_condition("VolumeBound", phase in ("Bound", "NoVolume"), phase)
    size = bound.get("capacity", {}).get("storage")
    p.status["volume"] = {"name": claim["metadata"]["name"], "phase": phase, "capacity": size} if claim else None
    problem = pod_problem(p.observed("v1", "Pod") if deployment else [])
    if problem:
        p.set_not_ready(*problem)
    done = conditions.get("Progressing", {}).get("reason") == "NewReplicaSetAvailable"
    p.status["phase"] = "Degraded" if problem else "Pending" if not deployment else "Ready" if done else "Progressing"


def pod_problem(pods: List[h.Object]) -> Optional[Tuple[str, str]]:
    """Returns the reason and the message of a container that cannot start."""
    for pod in pods:
        for c in pod.get("status", {}).get("containerStatuses", []) if "deletionTimestamp" not in pod["metadata"] else []:
            reason = c["state"].get("waiting", {}).get("reason", "")
            if reason not in ("", "ContainerCreating", "PodInitializing"):
                return reason, f"pod {pod['metadata']['name']}: container {c['name']} with image {c['image']}: {reason}"
    return None


if __name__ == "__main__":
    h.run(reconcile=reconcile)
