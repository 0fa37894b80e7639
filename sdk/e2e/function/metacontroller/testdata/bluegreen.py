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

    def count(color, field):
        return sets.get(f"{name}-{color}", {}).get("status", {}).get(field, 0)

    status = parent.get("status", {})
    active, current = status.get("activeColor", "blue"), status.get("activeTemplate", wanted)
    idle = "green" if active == "blue" else "blue"
    annotations = sets.get(f"{name}-{idle}", {}).get("metadata", {}).get("annotations", {})
    next_template = annotations.get(ANNOTATION, wanted)
    if current != wanted and next_template == wanted and count(idle, "readyReplicas") >= replicas:
        active, idle, current, next_template = idle, active, wanted, current
    rolling = current != wanted
    if next_template != wanted and count(idle, "replicas") > 0:
        idle_size, idle_template = 0, next_template  # pods of an earlier template go first
    else:
        idle_size, idle_template = replicas if rolling else 0, wanted

    children = [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name},
            "spec": {"selector": {**spec["selector"]["matchLabels"], "color": active}, "ports": [{"port": 80}]},
        }
    ]
    for color, size, text in (
        (active, replicas, current),
        (idle, idle_size, idle_template),
    ):
        labels = {**spec["selector"]["matchLabels"], "color": color}
        pods = json.loads(text)
        pods["metadata"]["labels"] = {**pods["metadata"].get("labels", {}), **labels}
        children.append(
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "metadata": {"name": f"{name}-{color}", "labels": labels, "annotations": {ANNOTATION: text}},
                "spec": {"replicas": size, "selector": {"matchLabels": labels}, "template": pods},
            }
        )
    return {
        "children": children,
        "status": {"activeColor": active, "activeTemplate": current, "readyReplicas": count(active, "readyReplicas")},
    }


if __name__ == "__main__":
    serve(sync, customize)
