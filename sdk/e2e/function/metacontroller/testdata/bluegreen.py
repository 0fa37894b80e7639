"""A BlueGreen has two ReplicaSets. A new template goes to the idle one, and the Service follows when it is ready."""

import copy
import json

from hooks import serve

ANNOTATION = "example.com/template"  # the template of a ReplicaSet as it was given


def customize(request):
    name = request["parent"]["spec"].get("configMapName")
    rules = [{"apiVersion": "v1", "resource": "configmaps", "names": [name]}] if name else []
    return {"relatedResources": rules}


def sync(request):
    parent, spec = request["parent"], request["parent"]["spec"]
    name, replicas = parent["metadata"]["name"], spec.get("replicas", 1)
    sets = request["children"]["ReplicaSet.apps/v1"]
    template = copy.deepcopy(spec["template"])
    for config in request["related"].get("ConfigMap.v1", {}).values():
        template["metadata"].setdefault("annotations", {})["example.com/config"] = json.dumps(config["data"], sort_keys=True)
    wanted = json.dumps(template, sort_keys=True)

    def stored(color):
        return sets.get(f"{name}-{color}", {}).get("metadata", {}).get("annotations", {}).get(ANNOTATION, wanted)

    def count(color, field):
        return sets.get(f"{name}-{color}", {}).get("status", {}).get(field, 0)

    active = parent.get("status", {}).get("activeColor", "blue")
    idle = "green" if active == "blue" else "blue"
    if stored(active) != wanted and stored(idle) == wanted and count(idle, "readyReplicas") >= replicas:
        active, idle = idle, active
    rolling = stored(active) != wanted
    mixed = rolling and stored(idle) != wanted and count(idle, "replicas") > 0  # pods of an earlier template

    children = [{
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"selector": {**spec["selector"]["matchLabels"], "color": active}, "ports": [{"port": 80}]},
    }]
    for color, size, text in (
        (active, replicas, stored(active)),
        (idle, replicas if rolling and not mixed else 0, stored(idle) if mixed or not rolling else wanted),
    ):
        labels = {**spec["selector"]["matchLabels"], "color": color}
        pods = json.loads(text)
        pods["metadata"]["labels"] = {**pods["metadata"].get("labels", {}), **labels}
        children.append({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": f"{name}-{color}", "labels": labels, "annotations": {ANNOTATION: text}},
            "spec": {"replicas": size, "selector": {"matchLabels": labels}, "template": pods},
        })
    return {"children": children, "status": {"activeColor": active, "readyReplicas": count(active, "readyReplicas")}}


if __name__ == "__main__":
    serve(sync, customize)
