"""Each pod of an annotated StatefulSet has a Service of its own, which selects the pod by a label."""

from hooks import serve


def sync_service_per_pod(request):
    stateful = request["object"]
    name, annotations = stateful["metadata"]["name"], stateful["metadata"]["annotations"]
    label = annotations["service-per-pod-label"]
    ports = [dict(zip(("port", "targetPort"), map(int, p.split(":")))) for p in annotations["service-per-pod-ports"].split(",")]
    return {
        "attachments": [
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": f"{name}-{n}", "labels": {"app": "service-per-pod"}},
                "spec": {"selector": {label: f"{name}-{n}"}, "ports": ports},
            }
            for n in range(stateful["spec"]["replicas"])
        ]
    }


def finalize_service_per_pod(request):
    return {"attachments": [], "finalized": not request["attachments"]["Service.v1"]}


def sync_pod_name_label(request):
    pod = request["object"]["metadata"]
    label = pod["annotations"]["pod-name-label"]
    return {"labels": {label: pod["name"]}, "annotations": {"example.com/labeled": label}}


if __name__ == "__main__":
    serve(sync_service_per_pod, finalize_service_per_pod, sync_pod_name_label)
