"""The operator in a control plane: what ships, under the engine."""

from homeostat_testkit import exists, gone, ready, ref

CLAIM = ref("v1", "PersistentVolumeClaim", "my-web-app-data")


def test_the_sample_becomes_ready(namespace, operator):
    operator.start()
    app = namespace.eventually(namespace.apply("sample.yaml"), ready())
    assert app["status"]["phase"] == "Ready" and app["status"]["readyReplicas"] == 1
    namespace.delete(app)
    namespace.eventually(app, gone())
    namespace.eventually(ref("apps/v1", "Deployment", "my-web-app"), gone())
    kept = namespace.eventually(CLAIM, exists())
    namespace.eventually(namespace.apply("sample.yaml"), ready())
    assert namespace.get(CLAIM)["metadata"]["uid"] == kept["metadata"]["uid"]


def test_exploration(explore):
    explore("scenario.yaml", budget="1m")
