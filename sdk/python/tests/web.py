"""An operator that uses each word of the protocol: the answers to sdk/function/testdata/request-*.json are those of it."""

from __future__ import annotations

import os
import sys

import homeostat as h


def reconcile(p: h.Pass) -> None:
    spec, name = p.object["spec"], p.object["metadata"]["name"]
    if spec["replicas"] < 0:
        raise h.Invalid("NegativeReplicas", "spec.replicas is negative: set it to 0 or more")
    if spec["image"] == "absent":
        p.status["image"] = None
        raise h.Wait("ImageMissing", "no such image exists yet", after=30)
    print("this is not an answer")
    os.write(1, b"nor is this\n")
    key = p.ref("v1", "Secret", spec["secret"])
    others = p.find("v1", "Secret", selector="web=" + name, namespace="shared")
    account = p.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}},
        create_only=True,
        adopt_if={"web": name},
        conflict_reason="AccountTaken",
    )
    claim = p.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name},
            "spec": {"resources": {"requests": {"storage": "1Gi"}}, "storageClassName": spec.get("class")},
        },
        retain=True,
        adopt=True,
        hold_back=h.Wait("Frozen", "the volume is frozen") if spec.get("frozen") else None,
    )
    deployment = p.apply(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {"replicas": spec["replicas"]}},
        after=[claim],
        after_created=[account],
        unmanaged=["spec.replicas"],
        on_immutable="Recreate",
        hold_until=False,
        ready_when=rolled_out,
    )
    pods = [pod["metadata"]["name"] for pod in p.observed("v1", "Pod")]
    p.status.update(pods=pods, key=key["metadata"]["resourceVersion"], others=len(others), seenAt=h.timestamp(p.now))
    p.set_condition("Available", deployment.live is not None, "Deployed", f"{len(pods)} pods")
    p.set_not_ready("Warming", "the cache is cold")
    p.requeue_after(60)
    p.requeue_after(2.5)
    p.event("Seen", "the pods were counted")
    p.warn("Cold", "the cache is cold")
    if spec.get("suspend"):
        p.set_suspended("Suspended", "spec.suspend is true")


def rolled_out(deployment: h.Object) -> bool | str:
    ready = deployment.get("status", {}).get("readyReplicas", 0)
    return ready >= deployment["spec"]["replicas"] or f"{ready} of {deployment['spec']['replicas']} pods are ready"


def finalize(p: h.Pass) -> None:
    p.set_unfinished("Draining", "shop-1 is still there")
    p.orphan_children(("v1", "PersistentVolumeClaim"))
    for pod in p.children:
        if pod["kind"] == "Pod":
            p.force_delete(pod)


if __name__ == "__main__":
    print("the program starts", file=sys.stderr)
    h.run(reconcile=reconcile, finalize=finalize)
