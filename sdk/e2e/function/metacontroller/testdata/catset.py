"""A CatSet is a StatefulSet as hooks: pods one by one, each with a claim, and the highest ordinal goes first."""

import copy

from hooks import serve


def is_ready(pod):
    conditions = pod.get("status", {}).get("conditions", [])
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


def sync(request):
    parent, spec = request["parent"], request["parent"]["spec"]
    name, finalizing = parent["metadata"]["name"], request["finalizing"]
    replicas = 0 if finalizing else spec.get("replicas", 1)
    pods = {int(n.rsplit("-", 1)[1]): pod for n, pod in request["children"]["Pod.v1"].items()}

    failed = {n for n, pod in pods.items() if pod.get("status", {}).get("phase") == "Failed"}
    wanted = {n for n in pods if n < replicas} - failed  # it is deleted, and then created again
    excess = sorted(n for n in pods if n >= replicas)
    wanted.update(excess[:-1])  # the highest goes, and the next one after it
    for n in range(replicas):
        if n not in pods:
            wanted.add(n)
        if n not in pods or not is_ready(pods[n]):
            break

    claims = set(wanted) | {int(n.rsplit("-", 1)[1]) for n in request["children"]["PersistentVolumeClaim.v1"]}
    return {
        "children": [claim(name, spec, n) for n in sorted(claims)] + [pod(name, spec, n) for n in sorted(wanted)],
        "status": {"replicas": len(pods), "readyReplicas": sum(is_ready(p) for p in pods.values())},
        "finalized": finalizing and not pods,
    }


def claim(name, spec, n):
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": f"data-{name}-{n}", "labels": spec["selector"]["matchLabels"]},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": spec.get("storage", "1Gi")}}},
    }


def pod(name, spec, n):
    pod = copy.deepcopy(spec["template"])
    pod.update(apiVersion="v1", kind="Pod")
    pod["metadata"]["name"] = f"{name}-{n}"
    pod["spec"].update(hostname=f"{name}-{n}", subdomain=spec["serviceName"])
    pod["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-{name}-{n}"}}]
    return pod


if __name__ == "__main__":
    serve(sync)
