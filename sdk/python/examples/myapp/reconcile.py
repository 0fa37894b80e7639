"""MyApp: a Deployment with a volume and, on request, a Service, an Ingress and a HorizontalPodAutoscaler."""

from typing import Any, Optional

import homeostat as h
from children import claim_spec, deployment_spec, ingress_spec, scaler_spec, service_spec


def reconcile(p: h.Pass) -> None:
    spec = p.spec
    if spec.get("paused"):
        raise h.Wait("Paused", "spec.paused is true, so that nothing is changed")
    if spec.get("podTemplate"):
        raise h.Invalid("NotSupported", "this operator has no spec.podTemplate: remove it")
    claim, volumes = apply_volume(p)
    has_replicas = "replicas" in spec and "autoscaling" not in spec  # others scale it otherwise
    unmanaged = [] if has_replicas else ["spec.replicas"]
    deployment = apply(p, "apps/v1", "Deployment", deployment_spec(p, claim), after_created=volumes, unmanaged=unmanaged)
    if spec["service"].get("enabled") and spec["ports"]:
        service = apply(p, "v1", "Service", service_spec(p))
        if spec["ingress"].get("enabled"):
            apply(p, "networking.k8s.io/v1", "Ingress", ingress_spec(p), after_created=[service])
    if "autoscaling" in spec:
        apply(p, "autoscaling/v2", "HorizontalPodAutoscaler", scaler_spec(p), after_created=[deployment])
    report(p, deployment.live, claim)


def apply(p: h.Pass, api_version: str, kind: str, spec: h.Object, **options: Any) -> h.Child:
    child = h.new(api_version, kind, p.name, labels={"app": p.name}, spec=spec)
    return p.apply(child, adopt=adopts(p), **options)


def adopts(p: h.Pass) -> bool:
    return bool(h.get(p.object, "metadata", "annotations", "mycompany.com/adopt") == "true")


def apply_volume(p: h.Pass) -> tuple[Optional[h.Object], list[h.Child]]:
    """Returns the claim to mount, or None, and the own claim, which stays when the storage is disabled."""
    storage, name = p.spec["storage"], p.name + "-data"
    enabled = storage.get("enabled", True)
    if storage.get("existingClaim"):
        return (p.ref("v1", "PersistentVolumeClaim", storage["existingClaim"]) if enabled else None), []
    live = p.live("v1", "PersistentVolumeClaim", name)
    if live is None and not enabled:
        return None, []
    claim = p.apply(
        h.new("v1", "PersistentVolumeClaim", name, labels={"app": p.name}, spec=claim_spec(p, live)),
        create_only=live is None,  # the size of an adopted claim is read first
        retain=p.spec.get("deletionPolicy") == "RetainData",
        adopt_if={} if adopts(p) else {"app": p.name, "app.kubernetes.io/managed-by": "myapp-python"},
    )
    return (claim.live or claim.desired) if enabled else None, [claim]


def report(p: h.Pass, deployment: Optional[h.Object], claim: Optional[h.Object]) -> None:
    for field in ("replicas", "readyReplicas", "updatedReplicas"):
        p.status[field] = h.get(deployment, "status", field, default=0)
    p.status["selector"] = "app=" + p.name
    conditions = {c["type"]: c for c in h.get(deployment, "status", "conditions", default=[])}
    for type in ("Available", "Progressing"):
        c = conditions.get(type, {"status": "False", "reason": "NoDeployment", "message": "there is no Deployment yet"})
        p.set_condition(type, c["status"], c["reason"], c.get("message", ""))
    phase = h.get(claim, "status", "phase", default="Pending") if claim else "NoVolume"
    p.set_condition("VolumeBound", phase in ("Bound", "NoVolume"), phase)
    size = h.get(claim, "status", "capacity", "storage")
    p.status["volume"] = {"name": claim["metadata"]["name"], "phase": phase, "capacity": size} if claim else None
    problem = pod_problem(p.observed("v1", "Pod") if deployment else [])
    if problem:
        p.set_not_ready(*problem)
    done = h.get(conditions, "Progressing", "reason") == "NewReplicaSetAvailable"
    p.status["phase"] = "Degraded" if problem else "Pending" if not deployment else "Ready" if done else "Progressing"


def pod_problem(pods: list[h.Object]) -> Optional[tuple[str, str]]:
    """Returns the reason and the message of a container that cannot start."""
    for pod in pods:
        for c in h.get(pod, "status", "containerStatuses", default=[]):
            reason = h.get(c, "state", "waiting", "reason", default="ContainerCreating")
            if reason not in ("ContainerCreating", "PodInitializing") and "deletionTimestamp" not in pod["metadata"]:
                return reason, f"pod {pod['metadata']['name']}: container {c['name']} with image {c['image']}: {reason}"
    return None


if __name__ == "__main__":
    h.run(reconcile=reconcile)
