"""The operator in a control plane: what ships, under the engine."""

from homeostat_testkit import condition, gone, ready, ref


def test_the_sample_becomes_ready(namespace, operator):
    operator.start()
    database = namespace.eventually(namespace.apply("sample.yaml"), ready(), condition("Available"))
    assert database["status"]["endpoint"] == f"orders-db.{namespace.name}.svc:5432"
    assert database["status"]["version"] == "16"


def test_dumps_outlive_their_backups_and_their_database(namespace, operator):
    operator.start()
    database = namespace.eventually(namespace.apply("sample.yaml"), ready())
    dumps = namespace.get(ref("v1", "PersistentVolumeClaim", "orders-db-backups"))
    namespace.patch(database, {"spec": {"backupEnabled": False}})
    namespace.eventually(ref("batch/v1", "CronJob", "orders-db-backup"), gone())
    namespace.delete(database)
    namespace.eventually(ref("apps/v1", "StatefulSet", "orders-db"), gone())
    namespace.eventually(namespace.apply("sample.yaml"), ready())
    assert namespace.get(dumps)["metadata"]["uid"] == dumps["metadata"]["uid"]


def test_the_secret_is_waited_for(namespace, operator):
    operator.start()
    database = namespace.apply("sample.yaml")
    namespace.eventually(database, ready())
    namespace.delete(ref("v1", "Secret", "orders-db"))
    namespace.eventually(database, condition("Ready", "False", "ReferenceNotFound"))
    namespace.apply("sample.yaml")
    namespace.eventually(database, ready())


def test_exploration(explore):
    explore("scenario.yaml", budget="1m")
