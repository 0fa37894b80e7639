"""The specs of the children of a MyApp."""

import re
from typing import Optional

import homeostat as h

UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
CONTAINER_FIELDS = ("image", "env", "envFrom", "resources", "livenessProbe", "readinessProbe", "ports")


def claim_spec(app: h.Object, live: Optional[h.Object]) -> h.Object:
    storage = app["spec"]["storage"]
    size = storage["size"]
    if live:  # a claim that is not bound cannot change, and a granted size cannot shrink
        state, asked = live.get("status", {}), live["spec"]["resources"]["requests"]["storage"]
        granted = in_bytes(asked) <= in_bytes(state.get("capacity", {}).get("storage", "0"))
        if state.get("phase") != "Bound" or granted and in_bytes(size) < in_bytes(asked):
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


def deployment_spec(app: h.Object, claim: Optional[h.Object]) -> h.Object:
    spec, name = app["spec"], app["metadata"]["name"]
    container = {"name": "app-container", **{k: spec[k] for k in CONTAINER_FIELDS if k in spec}}
    pod = {"containers": [container], **{k: spec[k] for k in ("imagePullSecrets", "serviceAccountName") if k in spec}}
    if claim:
        container["volumeMounts"] = [{"name": "data-volume", "mountPath": spec["storage"]["mountPath"]}]
        source = {"claimName": claim["metadata"]["name"]}
        pod["volumes"] = [{"name": "data-volume", "persistentVolumeClaim": source}]
    one_node = claim and not {"ReadWriteMany", "ReadOnlyMany"} & set(claim["spec"]["accessModes"])
    if spec.get("strategy") == "Recreate" or spec.get("strategy") != "RollingUpdate" and one_node:
        strategy: h.Object = {"type": "Recreate"}
    else:
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
    labels = {"app": name, "app.kubernetes.io/instance": name, "app.kubernetes.io/managed-by": "myapp-python"}
    return {
        "replicas": spec["autoscaling"]["minReplicas"] if "autoscaling" in spec else spec.get("replicas", 1),
        "selector": {"matchLabels": {"app": name}},
        "strategy": strategy,
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }


def service_spec(app: h.Object) -> h.Object:
    service, ports = app["spec"]["service"], app["spec"]["ports"]
    ports = [{**ports[0], "containerPort": service.get("port", ports[0]["containerPort"])}, *ports[1:]]
    return {
        "type": service.get("type"),
        "selector": {"app": app["metadata"]["name"]},
        "ports": [
            {"name": p["name"], "port": p["containerPort"], "protocol": p["protocol"], "targetPort": p["name"]}
            for p in ports
        ],
    }


def ingress_spec(app: h.Object) -> h.Object:
    ingress = app["spec"]["ingress"]
    backend = {"service": {"name": app["metadata"]["name"], "port": {"name": app["spec"]["ports"][0]["name"]}}}
    path = {"path": ingress["path"], "pathType": "Prefix", "backend": backend}
    secret = ingress.get("tlsSecretName")
    return {
        "ingressClassName": ingress.get("className"),
        "rules": [{"host": ingress.get("host"), "http": {"paths": [path]}}],
        "tls": [{"hosts": [ingress["host"]], "secretName": secret}] if secret else None,
    }


def scaler_spec(app: h.Object) -> h.Object:
    scaling = app["spec"]["autoscaling"]
    target = {"type": "Utilization", "averageUtilization": scaling["targetCPUUtilizationPercentage"]}
    return {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": app["metadata"]["name"]},
        "minReplicas": scaling["minReplicas"],
        "maxReplicas": scaling["maxReplicas"],
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
    }
