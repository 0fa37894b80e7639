"""The function alone: no cluster, no engine."""

import homeostat as h
import pytest
from reconcile import reconcile

DATABASE = {
    "apiVersion": "python.homeostat.dev/v1",
    "kind": "Database",
    "metadata": {"name": "orders", "namespace": "default"},
    "spec": {  # with the defaults of the CRD
        "engine": "postgresql",
        "version": "16",
        "storage": "1Gi",
        "credentialsSecret": "orders",
        "backupEnabled": False,
        "backupSchedule": "0 2 * * *",
        "deletionPolicy": "Retain",
    },
}


def secret(password="c2VjcmV0"):
    metadata = {"name": "orders", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"password": password}}


def database(status=None, **spec):
    return {**DATABASE, "spec": {**DATABASE["spec"], **spec}, "status": status or {}}


def stored(o, **status):
    return {**o, "metadata": {**o["metadata"], "namespace": "default"}, "status": status}


@pytest.mark.parametrize(
    ("engine", "port", "variable"), [("postgresql", 5432, "POSTGRES_PASSWORD"), ("mysql", 3306, "MYSQL_ROOT_PASSWORD")]
)
def test_a_database(engine, port, variable):
    plan = h.dry(reconcile, database(engine=engine), references=[secret()])
    assert [c["kind"] for c in plan.children] == ["Service", "Service", "StatefulSet"]
    assert plan.child("Service", "orders-pods")["spec"]["clusterIP"] == "None"
    container = plan.child("StatefulSet", "orders")["spec"]["template"]["spec"]["containers"][0]
    assert (container["env"][0]["name"], container["ports"][0]["containerPort"]) == (variable, port)
    assert plan.status == {"endpoint": f"orders.default.svc:{port}"}
    assert {t: c["reason"] for t, c in plan.conditions.items()} == {"Available": "Starting", "BackedUp": "Disabled"}


def test_the_secret():
    assert h.dry(reconcile, DATABASE).wait["reason"] == "ReferenceNotFound"
    assert h.dry(reconcile, DATABASE, references=[secret("")]).invalid["reason"] == "NoPassword"
    plans = [h.dry(reconcile, DATABASE, references=[secret(text)]) for text in ("YQ==", "Yg==")]
    old, new = (plan.child("StatefulSet", "orders") for plan in plans)
    assert old["spec"]["template"]["metadata"] != new["spec"]["template"]["metadata"]
    assert "YQ==" not in str(old)  # a hash alone


def test_backups():
    plan = h.dry(reconcile, database(backupEnabled=True), references=[secret()])
    claim, job = plan.answer["children"][-2:]
    assert claim["retain"] and claim["object"]["metadata"]["name"] == "orders-backups"
    assert [c["name"] for c in job["after"]] == ["orders"]
    command = job["object"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["command"]
    assert "pg_dumpall -h orders " in command[-1]
    done = stored(job["object"], lastSuccessfulTime="2026-01-01T02:00:00Z")
    plan = h.dry(reconcile, database(backupEnabled=True), done, references=[secret()])
    assert plan.conditions["BackedUp"]["status"] == "True"
    kept = stored(claim["object"])
    assert h.dry(reconcile, database(), kept, references=[secret()]).child("PersistentVolumeClaim", "orders-backups")
    later = h.dry(reconcile, database(plan.status), references=[secret()])  # the CronJob is gone
    assert later.status["lastBackup"] == "2026-01-01T02:00:00Z"


def test_the_version_is_that_of_the_server():
    server = h.dry(reconcile, DATABASE, references=[secret()]).child("StatefulSet", "orders")
    running = stored(server, availableReplicas=1, currentRevision="a", updateRevision="a")
    plan = h.dry(reconcile, database(version="17"), running, references=[secret()])
    assert (plan.status["version"], plan.conditions["Available"]["status"]) == ("16", "True")
    updating = stored(server, availableReplicas=1, currentRevision="a", updateRevision="b")
    assert "version" not in h.dry(reconcile, DATABASE, updating, references=[secret()]).status
