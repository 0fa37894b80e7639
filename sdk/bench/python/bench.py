"""The candidate that is a Python function on the engine: the children of package work."""

import homeostat as h


def reconcile(p: h.Pass) -> None:
    name, spec = p.object["metadata"]["name"], p.object["spec"]
    labels = {"database": name}
    image = "postgres:" + spec["version"]

    def child(api_version: str, kind: str, child_name: str, child_spec: h.Object) -> h.Child:
        metadata = {"name": child_name, "labels": labels}
        return p.apply({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": child_spec})

    database = child(
        "apps/v1",
        "StatefulSet",
        name + "-db",
        {
            "replicas": max(spec.get("replicas", 1), 1),
            "serviceName": name + "-db",
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "containers": [
                        {
                            "name": "postgres",
                            "image": image,
                            "ports": [{"name": "postgres", "containerPort": 5432}],
                            "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}},
                            "volumeMounts": [{"name": "data", "mountPath": "/var/lib/postgresql/data"}],
                        }
                    ],
                    "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name + "-data"}}],
                },
            },
        },
    )
    child("v1", "Service", name + "-db", {"selector": labels, "ports": [{"name": "postgres", "port": 5432}]})
    child(
        "v1",
        "PersistentVolumeClaim",
        name + "-data",
        {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": spec["storage"]}},
        },
    )
    child(
        "batch/v1",
        "CronJob",
        name + "-backup",
        {
            "schedule": "0 2 * * *",
            "jobTemplate": {
                "spec": {
                    "template": {
                        "spec": {
                            "restartPolicy": "OnFailure",
                            "containers": [{"name": "dump", "image": image, "command": ["pg_dump", "--host", name + "-db"]}],
                        }
                    }
                }
            },
        },
    )
    live = database.live or {}
    p.status["state"] = "Provisioned"
    p.status["readyReplicas"] = live.get("status", {}).get("readyReplicas", 0)


if __name__ == "__main__":
    h.run(reconcile=reconcile)
