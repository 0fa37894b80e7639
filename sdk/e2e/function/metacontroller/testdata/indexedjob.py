"""An IndexedJob is a Job whose pods have an index: each index is to complete once."""

import copy

from hooks import serve


def sync(request):
    spec, name = request["parent"]["spec"], request["parent"]["metadata"]["name"]
    pods = request["children"]["Pod.v1"]
    phases = {int(n.rsplit("-", 1)[1]): pod.get("status", {}).get("phase") for n, pod in pods.items()}
    finished = [n for n, phase in phases.items() if phase == "Succeeded"]
    active = len(phases) - len(finished)

    wanted = set(phases)
    for n in range(spec["completions"]):
        if n not in wanted and active < spec.get("parallelism", 1):
            wanted.add(n)
            active += 1
    return {
        "children": [pod(name, spec, n) for n in sorted(wanted)],
        "status": {
            "succeeded": len(finished),
            "conditions": [{"type": "Complete", "status": str(len(finished) == spec["completions"])}],
        },
    }


def pod(name, spec, n):
    pod = copy.deepcopy(spec["template"])
    pod.update(apiVersion="v1", kind="Pod")
    pod.setdefault("metadata", {})["name"] = f"{name}-{n}"
    for container in pod["spec"]["containers"]:
        container.setdefault("env", []).append({"name": "JOB_INDEX", "value": str(n)})
    return pod


if __name__ == "__main__":
    serve(sync)
