"""The function alone: no cluster, no engine."""

import copy

import homeostat as h
import pytest
from reconcile import reconcile

APP = {
    "apiVersion": "mycompany.com/v1",
    "kind": "MyApp",
    "metadata": {"name": "shop", "namespace": "default"},
    "spec": {  # with the defaults of the CRD
        "image": "nginx:1.21",
        "ports": [{"name": "http", "containerPort": 80, "protocol": "TCP"}],
        "storage": {"enabled": True, "size": "1Gi", "accessModes": ["ReadWriteOnce"], "mountPath": "/data"},
        "service": {"enabled": False, "type": "ClusterIP"},
        "ingress": {"enabled": False, "path": "/"},
        "strategy": "Auto",
        "deletionPolicy": "RetainData",
    },
}


def app(**spec):
    o = copy.deepcopy(APP)
    for name, value in spec.items():
        o["spec"][name] = {**o["spec"].get(name, {}), **value} if isinstance(value, dict) else value
    return o


def claim(size, capacity="", phase="Bound"):
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    status = {"phase": phase, "capacity": {"storage": capacity or size}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "shop-data", "namespace": "default"},
        "spec": spec,
        "status": status,
    }


def deployment(**status):
    o = h.dry(reconcile, APP).child("Deployment", "shop")
    return {**o, "metadata": {**o["metadata"], "namespace": "default"}, "status": status}


def test_the_smallest_app():
    plan = h.dry(reconcile, app())
    assert [c["kind"] for c in plan.children] == ["PersistentVolumeClaim", "Deployment"]
    spec = plan.child("Deployment", "shop")["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    assert spec["template"]["spec"]["volumes"][0]["persistentVolumeClaim"] == {"claimName": "shop-data"}
    claim, deployment = plan.answer["children"]
    assert claim["createOnly"] and claim["retain"] and claim["adopt"]["matchLabels"]["app"] == "shop"
    assert deployment["unmanaged"] == ["spec.replicas"]
    assert (plan.status["phase"], plan.conditions["VolumeBound"]["reason"]) == ("Pending", "Pending")


def test_traffic():
    plan = h.dry(
        reconcile,
        app(
            service={"enabled": True, "port": 8080},
            ingress={"enabled": True, "host": "shop.example.com", "tlsSecretName": "shop-tls"},
            autoscaling={"minReplicas": 2, "maxReplicas": 5, "targetCPUUtilizationPercentage": 80},
            storage={"enabled": False},
        ),
    )
    assert [c["kind"] for c in plan.children] == ["Deployment", "Service", "Ingress", "HorizontalPodAutoscaler"]
    assert plan.child("Service", "shop")["spec"]["ports"][0]["port"] == 8080
    assert plan.child("Ingress", "shop")["spec"]["tls"] == [{"hosts": ["shop.example.com"], "secretName": "shop-tls"}]
    spec = plan.child("Deployment", "shop")["spec"]
    assert (spec["replicas"], spec["strategy"]["type"]) == (2, "RollingUpdate")
    assert plan.conditions["VolumeBound"]["reason"] == "NoVolume" and "volume" not in plan.status


@pytest.mark.parametrize(
    ("asked", "live", "size"),
    [
        ("2Gi", claim("1Gi"), "2Gi"),
        ("1Gi", claim("2Gi"), "2Gi"),
        ("1Gi", claim("2Gi", capacity="1Gi"), "1Gi"),
        ("2Gi", claim("1Gi", phase="Pending"), "1Gi"),
    ],
    ids=["grow", "granted", "not granted", "not bound"],
)
def test_the_size_of_a_claim(asked, live, size):
    plan = h.dry(reconcile, app(storage={"size": asked}), live)
    assert plan.child("PersistentVolumeClaim", "shop-data")["spec"]["resources"]["requests"]["storage"] == size


def test_a_volume_stays_when_the_storage_is_disabled():
    plan = h.dry(reconcile, app(storage={"enabled": False}), claim("1Gi"))
    assert plan.child("PersistentVolumeClaim", "shop-data")
    assert "volumes" not in plan.child("Deployment", "shop")["spec"]["template"]["spec"]


def test_an_existing_claim():
    mine = claim("1Gi")
    mine["metadata"]["name"] = "mine"
    given = app(storage={"existingClaim": "mine"})
    plan = h.dry(reconcile, given, references=[mine])
    assert [c["kind"] for c in plan.children] == ["Deployment"]
    assert plan.status["volume"] == {"name": "mine", "phase": "Bound", "capacity": "1Gi"}
    assert h.dry(reconcile, given).wait["reason"] == "ReferenceNotFound"


def test_what_is_not_done():
    assert h.dry(reconcile, app(paused=True)).wait["reason"] == "Paused"
    assert h.dry(reconcile, app(podTemplate={"spec": {}})).invalid["reason"] == "NotSupported"
    assert h.dry(reconcile, app(storage={"size": "1e9"}), claim("1Gi")).invalid["reason"] == "InvalidSize"


def test_the_status():
    conditions = [
        {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable", "message": "it can serve"},
        {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable", "message": ""},
    ]
    live = deployment(replicas=1, readyReplicas=1, updatedReplicas=1, conditions=conditions)
    plan = h.dry(reconcile, APP, live, claim("1Gi"))
    assert plan.status["phase"] == "Ready" and plan.status["readyReplicas"] == 1
    assert {t: c["status"] for t, c in plan.conditions.items()} == {
        "Available": "True",
        "Progressing": "True",
        "VolumeBound": "True",
    }
    waiting = {"name": "app-container", "image": "nginx:1.21", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "shop-1"}, "status": {"containerStatuses": [waiting]}}
    plan = h.dry(reconcile, APP, live, claim("1Gi"), observed=[pod])
    assert (plan.status["phase"], plan.answer["notReady"]["reason"]) == ("Degraded", "ImagePullBackOff")
