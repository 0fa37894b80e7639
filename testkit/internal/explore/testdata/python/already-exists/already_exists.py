#!/usr/bin/python3
"""Serves each Page, with a handler for creation and one for changes.

Bug: it treats "already exists" as success, regardless of the object's owner and content. So a Page that was changed
while the operator was down keeps its old text, a child of the Page's predecessor counts as its own until the garbage
collector deletes it, and a conflicting ConfigMap is served and later overwritten. The status is Ready in each case.
"""

import logging
import os
import sys
import time

from kubernetes import client, config, watch
from kubernetes.client.rest import ApiException

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "correct"))
import pages  # noqa: E402

log = logging.getLogger("already-exists")


def create(function, namespace, body):
    try:
        function(namespace, body)
    except ApiException as e:
        if e.status == 409:
            pass  # already exists
        else:
            raise


def on_create(page, namespace):
    log.info("creating page %s", pages.name_of(page))
    core = client.CoreV1Api()
    create(core.create_namespaced_config_map, namespace, pages.config_map(page))
    create(core.create_namespaced_service, namespace, pages.service(page))
    update_status(page, namespace)


def on_update(page, namespace):
    log.info("updating page %s", pages.name_of(page))
    core = client.CoreV1Api()
    data = {"data": pages.config_map(page)["data"]}
    core.patch_namespaced_config_map(pages.name_of(page), namespace, data)
    ports = {"spec": {"ports": [{"$patch": "replace"}] + pages.service(page)["spec"]["ports"]}}
    core.patch_namespaced_service(pages.name_of(page), namespace, ports)
    update_status(page, namespace)


def update_status(page, namespace):
    status = pages.with_ready(page, "True", "Served", f"served on port {page['spec']['port']}")
    if status != page.get("status"):
        client.CustomObjectsApi().replace_namespaced_custom_object_status(
            pages.GROUP, pages.VERSION, namespace, pages.PLURAL, pages.name_of(page), {**page, "status": status}
        )


def main():
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(levelname)s %(message)s")
    args = pages.arguments()
    config.load_kube_config(args.kubeconfig)
    custom = client.CustomObjectsApi()
    while True:
        generations = {}
        try:
            stream = watch.Watch().stream(
                custom.list_namespaced_custom_object,
                pages.GROUP,
                pages.VERSION,
                args.namespace,
                pages.PLURAL,
                timeout_seconds=pages.WATCH_SECONDS,
            )
            for event in stream:
                page = event["object"]
                uid, generation = page["metadata"]["uid"], page["metadata"]["generation"]
                if event["type"] == "ADDED":
                    on_create(page, args.namespace)
                elif event["type"] == "MODIFIED" and generation != generations.get(uid):  # no status update
                    on_update(page, args.namespace)
                generations[uid] = generation
        except Exception as error:
            log.error("%s", str(error).partition("\n")[0])
        time.sleep(0.1)


if __name__ == "__main__":
    main()
