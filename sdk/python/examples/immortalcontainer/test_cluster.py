"""The operator in a control plane: what ships, under the engine."""

from homeostat_testkit import ready, ref

POD = ref("v1", "Pod", "example-immortal-container-immortalpod")


def test_a_deleted_pod_is_replaced_and_counted(namespace, operator):
    operator.start()
    container = namespace.eventually(namespace.apply("sample.yaml"), ready())
    assert (container["status"]["startTimes"], container["status"]["phase"]) == (1, "Running")
    namespace.delete(POD)
    namespace.eventually(container, lambda o: o["status"]["startTimes"] == 2, ready())


def test_the_pod_outlives_the_container(namespace, operator):
    operator.start()
    container = namespace.eventually(namespace.apply("sample.yaml"), ready())
    namespace.patch(container, {"spec": {"deletionPolicy": "Orphan"}})
    namespace.delete(container)
    namespace.eventually(POD, lambda o: "ownerReferences" not in o["metadata"])


def test_exploration(explore):
    explore("scenario.yaml", budget="1m")
