#!/usr/bin/python3
"""Serves each Page without a watch: every second it lists all Pages and applies the desired children.

It is correct and level-based, with two unusual properties. Most of its applies change nothing, and every three seconds
it stores the time of its last check in the status.
"""

import datetime
import json
import logging
import os
import sys
import time

import urllib3.exceptions
from kubernetes import client, config
from kubernetes.client.rest import ApiException

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "correct"))
import pages  # noqa: E402

PAUSE, STALE = 1.0, datetime.timedelta(seconds=3)
TIME = "%Y-%m-%dT%H:%M:%SZ"

log = logging.getLogger("polls")


def apply(api, resource, body):
    """Applies a child with exactly the operator's fields."""
    metadata = body["metadata"]
    api.call_api(
        f"/api/v1/namespaces/{metadata['namespace']}/{resource}/{metadata['name']}",
        "PATCH",
        query_params=[("fieldManager", "polls"), ("force", "true")],
        header_params={"Content-Type": "application/apply-patch+yaml", "Accept": "application/json"},
        body=json.dumps(body),
        auth_settings=["BearerToken"],
        response_type="object",
        _request_timeout=pages.REQUEST_TIMEOUT,
    )


def read(get, name, namespace):
    try:
        return pages.answer(get(name, namespace, **pages.RAW))
    except ApiException as error:
        if error.status == 404:
            return None
        raise


def serve(api, page):
    """Applies the children, unless a conflicting object exists. Returns status, reason and message of Ready."""
    core, name, namespace = client.CoreV1Api(api), pages.name_of(page), page["metadata"]["namespace"]
    for resource, get, body in (
        ("configmaps", core.read_namespaced_config_map, pages.config_map(page)),
        ("services", core.read_namespaced_service, {**pages.service(page), "apiVersion": "v1", "kind": "Service"}),
    ):
        live = read(get, name, namespace)
        if live and not pages.belongs_to(live, page):
            return "False", "NameTaken", f"there is a {body['kind']} {name} that is not this Page's: delete or rename it"
        apply(api, resource, body)
    return "True", "Served", "the text is served"


def reconcile(api, page):
    if page["metadata"].get("deletionTimestamp"):
        return
    status = pages.with_ready(page, *serve(api, page))
    now = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)
    checked = status.get("lastChecked")
    if not checked or now - datetime.datetime.strptime(checked, TIME) >= STALE:
        status["lastChecked"] = now.strftime(TIME)
    if status != page.get("status"):
        client.CustomObjectsApi(api).replace_namespaced_custom_object_status(
            pages.GROUP,
            pages.VERSION,
            page["metadata"]["namespace"],
            pages.PLURAL,
            pages.name_of(page),
            {**page, "status": status},
            _request_timeout=pages.REQUEST_TIMEOUT,
        )


def main():
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(levelname)s %(message)s")
    args = pages.arguments()
    config.load_kube_config(args.kubeconfig)
    api = client.ApiClient()
    custom = client.CustomObjectsApi(api)
    while True:
        try:
            found = custom.list_namespaced_custom_object(
                pages.GROUP, pages.VERSION, args.namespace, pages.PLURAL, _request_timeout=pages.REQUEST_TIMEOUT
            )
            for page in found["items"]:
                try:
                    reconcile(api, page)
                except ApiException as error:
                    log.warning("page '%s': %s, retrying", pages.name_of(page), error.reason)
        except (ApiException, urllib3.exceptions.HTTPError, OSError) as error:
            log.warning("%s: retrying", error)
        time.sleep(PAUSE)


if __name__ == "__main__":
    main()
