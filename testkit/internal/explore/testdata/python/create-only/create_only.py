#!/usr/bin/python3
"""Serves each Page, once: it has a handler for a Page that is created, and none for anything else.

Bug: a change of the text has no effect, and drift of a child is never corrected.
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

log = logging.getLogger("create-only")


def on_create(page, namespace):
    core, custom = client.CoreV1Api(), client.CustomObjectsApi()
    log.info("creating resources for page '%s' in namespace '%s'", pages.name_of(page), namespace)
    try:
        core.create_namespaced_config_map(namespace, pages.config_map(page))
    except ApiException as e:
        if e.status == 409:  # already exists
            log.warning("ConfigMap %s already exists", pages.name_of(page))
        else:
            raise
    try:
        core.create_namespaced_service(namespace, pages.service(page))
    except ApiException as e:
        if e.status == 409:  # already exists
            log.warning("Service %s already exists", pages.name_of(page))
        else:
            raise
    page["status"] = pages.with_ready(page, "True", "Created", "resources created successfully")
    custom.replace_namespaced_custom_object_status(pages.GROUP, pages.VERSION, namespace, pages.PLURAL, pages.name_of(page), page)
    log.info("page '%s' created", pages.name_of(page))


def main():
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(levelname)s %(message)s")
    args = pages.arguments()
    config.load_kube_config(args.kubeconfig)
    custom = client.CustomObjectsApi()
    while True:
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
                if event["type"] == "ADDED":
                    on_create(event["object"], args.namespace)
        except Exception as error:
            log.error("%s", str(error).partition("\n")[0])
        time.sleep(0.1)


if __name__ == "__main__":
    main()
