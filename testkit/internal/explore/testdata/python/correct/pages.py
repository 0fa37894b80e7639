#!/usr/bin/python3
"""An operator that serves each Page: its text is in a ConfigMap, its port is that of a Service.

It is level-based: an event only enqueues a Page, and a reconcile depends on the state in the API server, not on the
event. Everything in memory can be derived again, so it may be killed at any point.
"""

import argparse
import copy
import datetime
import hashlib
import heapq
import json
import logging
import os
import random
import signal
import sys
import threading
import time

import urllib3.exceptions
from kubernetes import client, config, watch
from kubernetes.client.rest import ApiException

GROUP, VERSION, PLURAL, KIND = "testkit.homeostat.dev", "v1", "pages", "Page"
MANAGED_BY = {"app.kubernetes.io/managed-by": "pages"}
REVISION, DIGEST = f"{GROUP}/revision", f"{GROUP}/digest"

REQUEST_TIMEOUT = (3.05, 15)  # seconds to connect, and between two bytes of the answer
WATCH_SECONDS = 240  # then the server ends a watch
FIRST_DELAY, LAST_DELAY = 0.05, 30.0  # seconds between attempts

log = logging.getLogger("pages")


# Desired objects.


def name_of(page):
    return page["metadata"]["name"]


def child(page):
    metadata = page["metadata"]
    return {
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "labels": {**MANAGED_BY, "app.kubernetes.io/instance": metadata["name"]},
        "ownerReferences": [
            {
                "apiVersion": f"{GROUP}/{VERSION}",
                "kind": KIND,
                "name": metadata["name"],
                "uid": metadata["uid"],
                "controller": True,
            }
        ],
    }


def config_map(page, record=None):
    metadata = child(page)
    if record:
        metadata["annotations"] = {REVISION: str(record["revision"]), DIGEST: record["digest"]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"index.html": page["spec"]["text"]}}


def service(page):
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": child(page),
        "spec": {
            "type": "ClusterIP",
            "selector": {"app.kubernetes.io/instance": name_of(page)},
            "ports": [{"name": "http", "protocol": "TCP", "port": page["spec"]["port"], "targetPort": 8080}],
        },
    }


def with_ready(page, status, reason, message):
    """Returns the Page's status with this Ready condition, whose time changes only when its status does."""
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    generation = page["metadata"]["generation"]
    result = copy.deepcopy(page.get("status") or {})
    conditions = result.setdefault("conditions", [])
    before = next((c for c in conditions if c["type"] == "Ready"), None)
    condition = {
        "type": "Ready",
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": before["lastTransitionTime"] if before and before["status"] == status else now,
    }
    result["conditions"] = [c for c in conditions if c["type"] != "Ready"] + [condition]
    result["observedGeneration"] = generation
    return result


def digest_of(page):
    return hashlib.sha256(page["spec"]["text"].encode()).hexdigest()[:16]


# Ownership and drift.


class NameTaken(Exception):
    """An object with a child's name that the Page does not own (a conflicting object)."""


def belongs_to(live, page):
    """Reports whether an object is the Page's child, possibly without its owner reference."""
    metadata = live["metadata"]
    controllers = [o for o in metadata.get("ownerReferences") or [] if o.get("controller")]
    if controllers:
        return controllers[0]["uid"] == page["metadata"]["uid"]
    labels = metadata.get("labels") or {}
    return all(labels.get(k) == v for k, v in child(page)["labels"].items())


def merged(live, desired):
    """Returns the live object with the operator's fields as desired, and all others unchanged."""
    result = copy.deepcopy(live)
    metadata = result["metadata"]
    for field in ("labels", "annotations"):
        wanted = desired["metadata"].get(field)
        if wanted:
            metadata[field] = {**(metadata.get(field) or {}), **wanted}
    owner = desired["metadata"]["ownerReferences"][0]
    others = [o for o in metadata.get("ownerReferences") or [] if o["uid"] != owner["uid"]]
    mine = [o for o in metadata.get("ownerReferences") or [] if o["uid"] == owner["uid"]]
    if not mine or any(mine[0].get(k) != v for k, v in owner.items()):
        metadata["ownerReferences"] = [*others, owner]
    for field in ("data", "spec"):
        if field in desired:
            result[field] = {**(result.get(field) or {}), **desired[field]}
    return result


# Access to the API server.


class Children:
    """The objects of one kind in the namespace, as plain dictionaries: the client's own types lose unknown fields."""

    def __init__(self, kind, list_, read, create, replace):
        self.kind, self.list, self._read, self._create, self._replace = kind, list_, read, create, replace

    def read(self, name, namespace):
        try:
            return answer(self._read(name, namespace, **RAW))
        except ApiException as error:
            if error.status == 404:
                return None
            raise

    def create(self, body):
        return answer(self._create(body["metadata"]["namespace"], body, **RAW))

    def replace(self, body):
        return answer(self._replace(body["metadata"]["name"], body["metadata"]["namespace"], body, **RAW))


RAW = {"_preload_content": False, "_request_timeout": REQUEST_TIMEOUT}


def answer(response):
    return json.loads(response.data)


class Queue:
    """A workqueue: the names of Pages to reconcile, each once, with their due times."""

    def __init__(self):
        self._due, self._heap, self._failures = {}, [], {}
        self._changed = threading.Condition()
        self._closed = False

    def add(self, name, delay=0.0):
        with self._changed:
            due = time.monotonic() + delay
            if name not in self._due or due < self._due[name]:
                self._due[name] = due
                heapq.heappush(self._heap, (due, name))
                self._changed.notify()

    def retry(self, name, at_least=0.0):
        self._failures[name] = self._failures.get(name, 0) + 1
        self.add(name, max(at_least, backoff(self._failures[name])))

    def forget(self, name):
        self._failures.pop(name, None)

    def get(self):
        """Waits for the next name. None means that the queue is closed."""
        with self._changed:
            while not self._closed:
                if not self._heap:
                    self._changed.wait()
                    continue
                due, name = self._heap[0]
                if self._due.get(name) != due:  # superseded by an earlier time
                    heapq.heappop(self._heap)
                    continue
                delay = due - time.monotonic()
                if delay > 0:
                    self._changed.wait(delay)
                    continue
                heapq.heappop(self._heap)
                del self._due[name]
                return name
            return None

    def close(self):
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def backoff(failures):
    delay = min(LAST_DELAY, FIRST_DELAY * 2 ** min(failures - 1, 20))
    return delay * random.uniform(0.8, 1.2)


def retry_after(error):
    """Returns the Retry-After header in seconds."""
    try:
        return float((error.headers or {}).get("Retry-After", 0))
    except (AttributeError, TypeError, ValueError):
        return 0.0


def reason_of(error):
    """Returns the message of the API server."""
    try:
        return json.loads(error.body)["message"]
    except (TypeError, ValueError, KeyError):
        return f"{error.status} {error.reason}"


# The operator.


class Operator:
    def __init__(self, api, namespace, resync):
        core, self.custom = client.CoreV1Api(api), client.CustomObjectsApi(api)
        self.namespace, self.resync = namespace, resync
        self.config_maps = Children(
            "ConfigMap",
            core.list_namespaced_config_map,
            core.read_namespaced_config_map,
            core.create_namespaced_config_map,
            core.replace_namespaced_config_map,
        )
        self.services = Children(
            "Service",
            core.list_namespaced_service,
            core.read_namespaced_service,
            core.create_namespaced_service,
            core.replace_namespaced_service,
        )
        self.queue, self.stopped = Queue(), threading.Event()
        self.pages = frozenset()  # the names of the Pages: replaced as a whole, because other threads iterate over it

    def list_pages(self, **arguments):
        return self.custom.list_namespaced_custom_object(GROUP, VERSION, self.namespace, PLURAL, **arguments)

    def list_config_maps(self, **arguments):
        return self.config_maps.list(self.namespace, **arguments)

    def list_services(self, **arguments):
        return self.services.list(self.namespace, **arguments)

    def run(self):
        """Runs until stop is called."""
        for list_ in (self.list_pages, self.list_config_maps, self.list_services):
            threading.Thread(target=self.watch, args=(list_,), name=list_.__name__, daemon=True).start()
        log.info("serving the Pages in namespace %s", self.namespace)
        while (name := self.queue.get()) is not None:
            try:
                self.reconcile(name)
            except ApiException as error:
                log.info("Page %s: %s", name, reason_of(error))
                # After a conflict, the retry reads the other manager's write.
                self.queue.retry(name, retry_after(error))
            except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
                log.info("Page %s: %s", name, error)
                self.queue.retry(name)
            else:
                self.queue.forget(name)

    def stop(self):
        self.stopped.set()
        self.queue.close()

    def watch(self, list_):
        """Enqueues a Page for each event of one kind. Children have their Page's name."""
        known, failures = set(), 0
        while not self.stopped.is_set():
            try:
                listed = answer(list_(**RAW))
                names = {item["metadata"]["name"] for item in listed["items"]}
                if list_ == self.list_pages:
                    self.pages = names
                # An object that a reconcile has read may be gone before this list: no watch tells. So all Pages are due.
                for name in known | names | self.pages:
                    self.queue.add(name)
                known, failures = names, 0
                for event in watch.Watch(return_type=object).stream(
                    list_,
                    resource_version=listed["metadata"]["resourceVersion"],
                    timeout_seconds=min(WATCH_SECONDS, self.resync),  # then a resync follows
                    _request_timeout=(REQUEST_TIMEOUT[0], WATCH_SECONDS + 30),
                ):
                    if name := event["object"]["metadata"].get("name"):  # a bookmark has none
                        known = known | {name}
                        if list_ == self.list_pages:
                            self.pages = known
                        self.queue.add(name)
            except Exception as error:  # any error, such as a 410, must lead to a new watch
                failures += 1
                log.info("%s: %s", threading.current_thread().name, str(error).partition("\n")[0])
            self.stopped.wait(backoff(max(failures, 1)))

    def reconcile(self, name):
        """Reconciles one Page. An exception leads to a retry."""
        # The children are read before the Page. A later write of a child makes ours a conflict, and an earlier write had
        # no newer Page than the one read below. So an older text never replaces a newer one, even with two operators.
        live = {kind: kind.read(name, self.namespace) for kind in (self.config_maps, self.services)}
        page = self.read_page(name)
        if page is None or page["metadata"].get("deletionTimestamp"):
            return  # the garbage collector deletes the children
        try:
            status = self.make_children(page, live)
        except NameTaken as error:
            status = with_ready(page, "False", "NameTaken", str(error))  # the deletion of the other object is an event
        except ApiException as error:
            if error.status in (400, 403, 413, 422):
                self.store_status(page, with_ready(page, "False", "Refused", reason_of(error)))
            raise
        self.store_status(page, status)

    def make_children(self, page, live):
        """Creates or updates the children and returns the status."""
        for kind, found in live.items():
            if found is not None and not belongs_to(found, page):
                raise NameTaken(f"there is another {kind.kind} of this name: delete it, or choose another name")
        record = self.next_record(page, live[self.config_maps])
        self.ensure(self.config_maps, live[self.config_maps], config_map(page, record))
        self.ensure(self.services, live[self.services], service(page))
        return {**with_ready(page, "True", "Served", f"served on port {page['spec']['port']}"), **record}

    def next_record(self, page, live):
        """Returns the revision of the Page's text, and the text's digest.

        The request that stores the text in the ConfigMap stores both as well, so a crash cannot separate them. The status
        has a copy, in case the ConfigMap is deleted.
        """
        records = [{"revision": 0, "digest": ""}]
        annotations = (live or {}).get("metadata", {}).get("annotations") or {}
        if annotations.get(REVISION, "").isdecimal():
            records.append({"revision": int(annotations[REVISION]), "digest": annotations.get(DIGEST, "")})
        status = page.get("status") or {}
        if "revision" in status:
            records.append({"revision": status["revision"], "digest": status.get("digest", "")})
        last = max(records, key=lambda record: record["revision"])
        digest = digest_of(page)
        return last if last["digest"] == digest else {"revision": last["revision"] + 1, "digest": digest}

    def read_page(self, name):
        try:
            return answer(self.custom.get_namespaced_custom_object(GROUP, VERSION, self.namespace, PLURAL, name, **RAW))
        except ApiException as error:
            if error.status == 404:
                return None
            raise

    def ensure(self, children, live, desired):
        if live is None:
            children.create(desired)
            log.info("created %s %s", children.kind, desired["metadata"]["name"])
            return
        wanted = merged(live, desired)
        if wanted != live:
            children.replace(wanted)  # optimistic concurrency: a concurrent write is not lost
            log.info("updated %s %s", children.kind, desired["metadata"]["name"])

    def store_status(self, page, status):
        if status == page.get("status"):
            return
        body = {**page, "status": status}
        self.custom.replace_namespaced_custom_object_status(GROUP, VERSION, self.namespace, PLURAL, name_of(page), body, **RAW)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kubeconfig", default=os.environ.get("KUBECONFIG"), help="default: $KUBECONFIG, or in-cluster")
    parser.add_argument("--namespace", default=os.environ.get("NAMESPACE", "default"), help="default: $NAMESPACE")
    parser.add_argument("--resync", type=int, default=WATCH_SECONDS, help="seconds until everything is looked at again")
    return parser.parse_args()


def connect(kubeconfig):
    """Returns a client without retries of its own."""
    settings = client.Configuration()
    if kubeconfig:
        config.load_kube_config(kubeconfig, client_configuration=settings)
    else:
        config.load_incluster_config(client_configuration=settings)
    settings.retries = False
    return client.ApiClient(settings)


def main(kind=Operator):
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(levelname)s %(message)s")
    args = arguments()
    operator = kind(connect(args.kubeconfig), args.namespace, args.resync)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: operator.stop())
    operator.run()


if __name__ == "__main__":
    main()
