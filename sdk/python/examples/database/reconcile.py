"""Database: a StatefulSet of one server with its Services and, on request, a CronJob for backups."""

import hashlib

import homeostat as h

# The image, the port, the folder of the data, the variable with the password, and the command of a dump.
ENGINES = {
    "postgresql": ("postgres", 5432, "/var/lib/postgresql/data", "POSTGRES_PASSWORD",
                   'PGPASSWORD="$PASSWORD" pg_dumpall -h {host} -U postgres > /backups/dump.sql'),
    "mysql": ("mysql", 3306, "/var/lib/mysql", "MYSQL_ROOT_PASSWORD",
              'MYSQL_PWD="$PASSWORD" mysqldump -h {host} -u root --all-databases > /backups/dump.sql'),
}  # fmt: skip


def reconcile(p: h.Pass) -> None:
    spec, name = p.object["spec"], p.object["metadata"]["name"]
    password = p.ref("v1", "Secret", spec["credentialsSecret"]).get("data", {}).get("password")
    if not password:
        raise h.Invalid("NoPassword", f"Secret {spec['credentialsSecret']} has no key password: add it")
    port = ENGINES[spec["engine"]][1]
    ports = [{"name": "database", "port": port, "targetPort": port}]
    p.apply(child(p, "v1", "Service", name, {"selector": {"app": name}, "ports": ports}))
    pods = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"app": name}, "ports": ports}
    p.apply(child(p, "v1", "Service", name + "-pods", pods))
    server = p.apply(child(p, "apps/v1", "StatefulSet", name, server_spec(p, password)), on_immutable="RecreateOrphan")
    if spec["backupEnabled"] or p.live("v1", "PersistentVolumeClaim", name + "-backups"):  # dumps outlive backupEnabled
        volume = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": spec["storage"]}}}
        own = {"app": name, "app.kubernetes.io/managed-by": "database-python"}
        claim = child(p, "v1", "PersistentVolumeClaim", name + "-backups", volume)
        held = p.apply(claim, retain=spec["deletionPolicy"] == "Retain", adopt_if=own)
        if spec["backupEnabled"]:
            p.apply(child(p, "batch/v1", "CronJob", name + "-backup", backup_spec(p)), after=[server], after_created=[held])
    report(p, server.live or {}, port)


def child(p: h.Pass, api_version: str, kind: str, name: str, spec: h.Object) -> h.Object:
    labels = {"app": p.object["metadata"]["name"]}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "labels": labels}, "spec": spec}


def server_spec(p: h.Pass, password: str) -> h.Object:
    spec, name = p.object["spec"], p.object["metadata"]["name"]
    image, port, folder, variable, _ = ENGINES[spec["engine"]]
    source = {"secretKeyRef": {"name": spec["credentialsSecret"], "key": "password"}}
    container = {
        "name": "server",
        "image": f"{image}:{spec['version']}",
        "env": [{"name": variable, "valueFrom": source}],
        "ports": [{"name": "database", "containerPort": port}],
        "readinessProbe": {"tcpSocket": {"port": "database"}},
        "volumeMounts": [{"name": "data", "mountPath": folder, "subPath": "data"}],
    }
    request = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": spec["storage"]}}}
    # The hash restarts the server when the password changes.
    annotations = {"python.homeostat.dev/password": hashlib.sha256(password.encode()).hexdigest()[:16]}
    return {
        "serviceName": name + "-pods",
        "replicas": 1,
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}, "annotations": annotations}, "spec": {"containers": [container]}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": request}],
    }


def backup_spec(p: h.Pass) -> h.Object:
    spec, name = p.object["spec"], p.object["metadata"]["name"]
    image, _, _, _, command = ENGINES[spec["engine"]]
    source = {"secretKeyRef": {"name": spec["credentialsSecret"], "key": "password"}}
    container = {
        "name": "dump",
        "image": f"{image}:{spec['version']}",
        "command": ["sh", "-ec", command.format(host=name)],
        "env": [{"name": "PASSWORD", "valueFrom": source}],
        "volumeMounts": [{"name": "backups", "mountPath": "/backups"}],
    }
    volume = {"name": "backups", "persistentVolumeClaim": {"claimName": name + "-backups"}}
    pod = {"restartPolicy": "Never", "containers": [container], "volumes": [volume]}
    job = {"backoffLimit": 2, "template": {"spec": pod}}
    return {"schedule": spec["backupSchedule"], "concurrencyPolicy": "Forbid", "jobTemplate": {"spec": job}}


def report(p: h.Pass, server: h.Object, port: int) -> None:
    name, namespace, state = p.object["metadata"]["name"], p.object["metadata"]["namespace"], server.get("status", {})
    available = bool(state.get("availableReplicas"))
    p.set_condition("Available", available, "Serving" if available else "Starting")
    p.status["endpoint"] = f"{name}.{namespace}.svc:{port}"
    if available and state.get("currentRevision") == state.get("updateRevision"):
        p.status["version"] = server["spec"]["template"]["spec"]["containers"][0]["image"].rpartition(":")[2]
    backup = p.live("batch/v1", "CronJob", name + "-backup") or {}
    last = backup.get("status", {}).get("lastSuccessfulTime") or p.status.get("lastBackup")
    p.status["lastBackup"] = last
    if last:
        p.set_condition("BackedUp", True, "Dumped", f"the last dump is of {last}")
    else:
        p.set_condition("BackedUp", False, "NoDumpYet" if p.object["spec"]["backupEnabled"] else "Disabled")


if __name__ == "__main__":
    h.run(reconcile=reconcile)
