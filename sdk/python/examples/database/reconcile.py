"""Database: a StatefulSet of one server with its Services and, on request, a CronJob for backups."""

import homeostat as h

# The image, the port, the folder of the data, the variable with the password, and the command of a dump.
ENGINES = {
    "postgresql": ("postgres", 5432, "/var/lib/postgresql/data", "POSTGRES_PASSWORD",
                   'PGPASSWORD="$PASSWORD" pg_dumpall -h {host} -U postgres > /backups/dump.sql'),
    "mysql": ("mysql", 3306, "/var/lib/mysql", "MYSQL_ROOT_PASSWORD",
              'MYSQL_PWD="$PASSWORD" mysqldump -h {host} -u root --all-databases > /backups/dump.sql'),
}  # fmt: skip


def reconcile(p: h.Pass) -> None:
    name, spec, labels = p.name, p.spec, {"app": p.name}
    password = h.get(p.ref("v1", "Secret", spec["credentialsSecret"]), "data", "password")
    if not password:
        raise h.Invalid("NoPassword", f"Secret {spec['credentialsSecret']} has no key password: add it")
    port = ENGINES[spec["engine"]][1]
    service = {"selector": labels, "ports": [{"name": "database", "port": port, "targetPort": port}]}
    p.apply(h.new("v1", "Service", name, labels=labels, spec=service))
    headless = {**service, "clusterIP": "None", "publishNotReadyAddresses": True}
    p.apply(h.new("v1", "Service", name + "-pods", labels=labels, spec=headless))
    replicas = h.new("apps/v1", "StatefulSet", name, labels=labels, spec=server_spec(p, h.digest(password)))
    server = p.apply(replicas)
    if spec["backupEnabled"] or p.live("v1", "PersistentVolumeClaim", name + "-backups"):  # dumps outlive backupEnabled
        claim = h.new("v1", "PersistentVolumeClaim", name + "-backups", labels=labels, spec=claim_spec(spec))
        own = {**labels, "app.kubernetes.io/managed-by": "database-python"}
        dumps = p.apply(claim, retain=spec["deletionPolicy"] == "Retain", adopt_if=own)
        if spec["backupEnabled"]:
            backup = h.new("batch/v1", "CronJob", name + "-backup", labels=labels, spec=backup_spec(p))
            p.apply(backup, after=[server], after_created=[dumps])
    report(p, server.live, port)


def claim_spec(spec: h.Object) -> h.Object:
    return {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": spec["storage"]}}}


def container(p: h.Pass, name: str, password: str, **fields: object) -> h.Object:
    """Returns a container of the engine's image, with the password in this variable."""
    source = {"secretKeyRef": {"name": p.spec["credentialsSecret"], "key": "password"}}
    image = f"{ENGINES[p.spec['engine']][0]}:{p.spec['version']}"
    return {"name": name, "image": image, "env": [{"name": password, "valueFrom": source}], **fields}


def server_spec(p: h.Pass, password: str) -> h.Object:
    _, port, folder, variable, _ = ENGINES[p.spec["engine"]]
    ports, probe = [{"name": "database", "containerPort": port}], {"tcpSocket": {"port": "database"}}
    mount = {"name": "data", "mountPath": folder, "subPath": "data"}
    server = container(p, "server", variable, ports=ports, readinessProbe=probe, volumeMounts=[mount])
    metadata = {"labels": {"app": p.name}, "annotations": {"python.homeostat.dev/password": password}}  # restarts the server
    return {
        "serviceName": p.name + "-pods",
        "replicas": 1,
        "selector": {"matchLabels": {"app": p.name}},
        "template": {"metadata": metadata, "spec": {"containers": [server]}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim_spec(p.spec)}],
    }


def backup_spec(p: h.Pass) -> h.Object:
    command = ["sh", "-ec", ENGINES[p.spec["engine"]][4].format(host=p.name)]
    dump = container(p, "dump", "PASSWORD", command=command, volumeMounts=[{"name": "backups", "mountPath": "/backups"}])
    volume = {"name": "backups", "persistentVolumeClaim": {"claimName": p.name + "-backups"}}
    pod = {"restartPolicy": "Never", "containers": [dump], "volumes": [volume]}
    job = {"backoffLimit": 2, "template": {"spec": pod}}
    return {"schedule": p.spec["backupSchedule"], "concurrencyPolicy": "Forbid", "jobTemplate": {"spec": job}}


def report(p: h.Pass, server: "h.Object | None", port: int) -> None:
    available = h.get(server, "status", "availableReplicas", default=0) > 0
    p.set_condition("Available", available, "Serving" if available else "Starting")
    p.status["endpoint"] = f"{p.name}.{p.namespace}.svc:{port}"
    if available and h.get(server, "status", "currentRevision") == h.get(server, "status", "updateRevision"):
        p.status["version"] = h.get(server, "spec", "template", "spec", "containers", 0, "image").rpartition(":")[2]
    backup = p.live("batch/v1", "CronJob", p.name + "-backup")
    last = h.get(backup, "status", "lastSuccessfulTime") or p.status.get("lastBackup")
    p.status["lastBackup"] = last
    if last:
        p.set_condition("BackedUp", True, "Dumped", f"the last dump is of {last}")
    else:
        p.set_condition("BackedUp", False, "NoDumpYet" if p.spec["backupEnabled"] else "Disabled")


if __name__ == "__main__":
    h.run(reconcile=reconcile)
