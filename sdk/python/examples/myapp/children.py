"""The specs of the children of a MyApp."""

import re
from typing import Optional

import homeostat as h

UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
CONTAINER_FIELDS = ("image", "env", "envFrom", "resources", "livenessProbe", "readinessProbe", "ports")
POD_FIELDS = ("imagePullSecrets", "serviceAccountName")


def claim_spec(p: h.Pass, live: Optional[h.Object]) -> h.Object:
    storage, size = p.spec["storage"], p.spec["storage"]["size"]
    if live:  # a claim that is not bound cannot change, and a granted size cannot shrink
        asked = live["spec"]["resources"]["requests"]["storage"]
        granted = in_bytes(asked) <= in_bytes(h.get(live, "status", "capacity", "storage", default="0"))
        if h.get(live, "status", "phase") != "Bound" or (granted and in_bytes(size) < in_bytes(asked)):
            size = asked
    return {
        "accessModes": storage["accessModes"],
        "storageClassName": storage.get("storageClassName"),
        "resources": {"requests": {"storage": size}},
    }


def in_bytes(quantity: str) -> float:
    match = re.fullmatch(r"([0-9.]+)([kMGT]i?|Ki|)", quantity)
    if not match:
        raise h.Invalid("InvalidSize", f"spec.storage.size {quantity} is not understood: write for example 1Gi")
    return float(match[1]) * UNITS[match[2]]


def deployment_spec(p: h.Pass, claim: Optional[h.Object]) -> h.Object:
    spec = p.spec
    container: h.Object = {"name": "app-container", **{field: spec.get(field) for field in CONTAINER_FIELDS}}
    pod: h.Object = {"containers": [container], **{field: spec.get(field) for field in POD_FIELDS}}
    if claim:
        container["volumeMounts"] = [{"name": "data-volume", "mountPath": spec["storage"]["mountPath"]}]
        pod["volumes"] = [{"name": "data-volume", "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}]
    one_node = claim and not {"ReadWriteMany", "ReadOnlyMany"} & set(claim["spec"]["accessModes"])
    recreates = spec.get("strategy") == "Recreate" or (spec.get("strategy") != "RollingUpdate" and one_node)
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
    labels = {"app": p.name, "app.kubernetes.io/instance": p.name, "app.kubernetes.io/managed-by": "myapp-python"}
    return {
        "replicas": spec["autoscaling"]["minReplicas"] if "autoscaling" in spec else spec.get("replicas", 1),
        "selector": {"matchLabels": {"app": p.name}},
        "strategy": {"type": "Recreate"} if recreates else rolling,
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }


def service_spec(p: h.Pass) -> h.Object:
    service, (first, *others) = p.spec["service"], p.spec["ports"]
    ports = [{**first, "containerPort": service.get("port", first["containerPort"])}, *others]
    return {
        "type": service.get("type"),
        "selector": {"app": p.name},
        "ports": [
            {"name": port["name"], "port": port["containerPort"], "protocol": port["protocol"], "targetPort": port["name"]}
            for port in ports
        ],
    }


def ingress_spec(p: h.Pass) -> h.Object:
    ingress = p.spec["ingress"]
    backend = {"service": {"name": p.name, "port": {"name": p.spec["ports"][0]["name"]}}}
    path = {"path": ingress["path"], "pathType": "Prefix", "backend": backend}
    secret = ingress.get("tlsSecretName")
    return {
        "ingressClassName": ingress.get("className"),
        "rules": [{"host": ingress.get("host"), "http": {"paths": [path]}}],
        "tls": [{"hosts": [ingress["host"]], "secretName": secret}] if secret else None,
    }


def scaler_spec(p: h.Pass) -> h.Object:
    scaling = p.spec["autoscaling"]
    target = {"type": "Utilization", "averageUtilization": scaling["targetCPUUtilizationPercentage"]}
    return {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": p.name},
        "minReplicas": scaling["minReplicas"],
        "maxReplicas": scaling["maxReplicas"],
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
    }
