package v1_test

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/testkit"
)

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.Env{CRDs: "../../config/crd", AddToScheme: v1.AddToScheme})
}

func parse(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{}
	if err := json.Unmarshal(raw, &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

func object(t *testing.T, kind, name, spec string) *unstructured.Unstructured {
	t.Helper()
	return parse(t, "apiVersion: techoral.com/v1\nkind: "+kind+"\nmetadata: {name: "+name+"}\nspec: "+spec)
}

func TestInvalidDatabasesAreRejected(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	const good = "engine: postgresql, version: '16', storage: 1Gi"
	for why, c := range map[string]struct{ name, spec, field, want string }{
		"long name":         {strings.Repeat("a", 43), good, "metadata", "choose at most 42"},
		"name with a dot":   {"a.b", good, "metadata", "choose at most 42"},
		"name from a digit": {"1a", good, "metadata", "beginning with a letter"},
		"no engine":         {"a", "version: '16', storage: 1Gi", "spec.engine", "Required value"},
		"no version":        {"a", "engine: mysql, storage: 1Gi", "spec.version", "Required value"},
		"no storage":        {"a", "engine: mysql, version: '8'", "spec.storage", "Required value"},
		"unknown engine":    {"a", "engine: oracle, version: '16', storage: 1Gi", "spec.engine", "Unsupported value"},
		"latest": {
			"a", "engine: postgresql, version: latest, storage: 1Gi", "spec.version", "must begin with the number",
		},
		"injected tag": {
			"a", "engine: postgresql, version: '16@sha256:1', storage: 1Gi", "spec.version", "must begin with",
		},
		"storage of nothing": {
			"a", "engine: postgresql, version: '16', storage: 0Gi", "spec.storage", "greater than 0 in Mi, Gi or Ti",
		},
		"snapshot of another namespace": {
			"a", good + ", bootstrapFrom: {snapshotRef: {name: other/a}}", "spec.bootstrapFrom.snapshotRef.name",
			"no DBSnapshot can have that name",
		},
		"storage in bytes": {"a", "engine: postgresql, version: '16', storage: '100'", "spec.storage", "in Mi, Gi or Ti"},
		"no replicas":      {"a", good + ", replicas: 0", "spec.replicas", "greater than or equal to 1"},
		"six replicas":     {"a", good + ", replicas: 6", "spec.replicas", "less than or equal to 5"},
		"replicas of mysql": {
			"a", "engine: mysql, version: '8.4', storage: 1Gi, replicas: 2", "spec.replicas", "not supported for mysql",
		},
		"image with a space": {"a", good + ", image: 'a b'", "spec.image", "no white space"},
		"setting of ours": {
			"a", good + ", configuration: {listen_addresses: '*'}", "spec.configuration", "the operator's own",
		},
		"with a dash":         {"a", good + ", configuration: {server-id: '3'}", "spec.configuration", "the operator's own"},
		"two lines":           {"a", good + `, configuration: {work_mem: "4MB\nport = 1"}`, "spec.configuration", "has one line"},
		"name of no setting":  {"a", good + ", configuration: {'a b': '1'}", "spec.configuration", "letters, digits, dashes"},
		"database of its own": {"a", good + ", databaseName: postgres", "spec.databaseName", "that the server has itself"},
		"quoted database":     {"a", good + `, databaseName: 'a"b'`, "spec.databaseName", "lower-case letters"},
		"owner of its own":    {"a", good + ", username: replication", "spec.username", "that the server has itself"},
		"no schedule":         {"a", good + ", backup: {schedule: daily}", "spec.backup.schedule", "must have five fields"},
		"six fields": {
			"a", good + ", backup: {schedule: '0 0 2 * * *'}", "spec.backup.schedule", "must have five fields",
		},
		"no time zone": {"a", good + ", backup: {timeZone: ''}", "spec.backup.timeZone", "at least 1 chars long"},
		"keep no dump": {
			"a", good + ", backup: {retention: {count: 0}}", "spec.backup.retention.count", "greater than or equal to 1",
		},
		"backup of nothing": {"a", good + ", backup: {storage: {size: 0Gi}}", "spec.backup.storage.size", "greater than 0"},
		"two beginnings": {
			"a", good + ", bootstrapFrom: {snapshotRef: {name: a}, backupRef: {claimName: a}}", "spec.bootstrapFrom", "exactly one",
		},
		"no beginning": {"a", good + ", bootstrapFrom: {}", "spec.bootstrapFrom", "exactly one"},
		"path of dump": {
			"a", good + ", bootstrapFrom: {backupRef: {claimName: a, name: ../b}}", "spec.bootstrapFrom.backupRef.name",
			"without a path",
		},
		"other policy": {"a", good + ", deletionPolicy: Keep", "spec.deletionPolicy", "Unsupported value"},
		"short farewell": {
			"a", good + ", podTemplate: {terminationGracePeriodSeconds: 1}", "spec.podTemplate.terminationGracePeriodSeconds",
			"greater than or equal to 10",
		},
	} {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			answer := k.Refused(object(t, "Database", c.name, "{"+c.spec+"}"))
			if !strings.Contains(answer, c.want) || !strings.Contains(answer, c.field) {
				t.Errorf("%s\nwant %q of %s", answer, c.want, c.field)
			}
		})
	}
}

// TestUpdates tests each transition of a Database: allowed, or rejected with a message.
func TestUpdates(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	for why, c := range map[string]struct{ from, to, want string }{
		"other engine": {
			"engine: mariadb, version: '11'", "engine: mysql, version: '11'", "no server reads the data of another engine",
		},
		"next major": {
			"engine: postgresql, version: '16'", "engine: postgresql, version: '17'",
			"make a new Database of that version with spec.bootstrapFrom",
		},
		"latest":          {"engine: postgresql, version: '16'", "engine: postgresql, version: latest", "begin with the number"},
		"latest series":   {"engine: mariadb, version: '10.11'", "engine: mariadb, version: latest", "begin with the number"},
		"former major":    {"engine: postgresql, version: '16'", "engine: postgresql, version: '15.3'", "leave the major version"},
		"minor":           {"engine: postgresql, version: '16'", "engine: postgresql, version: '16.4-bookworm'", ""},
		"former minor":    {"engine: postgresql, version: '16.4'", "engine: postgresql, version: '16.3'", ""},
		"next series":     {"engine: mariadb, version: '10.11'", "engine: mariadb, version: '10.12.3'", ""},
		"former series":   {"engine: mariadb, version: '10.11'", "engine: mariadb, version: '10.6'", "of a later release series"},
		"any of a series": {"engine: mariadb, version: '10.11'", "engine: mariadb, version: '10'", ""},
		"both at once": {
			"engine: postgresql, version: '16', replicas: 3", "engine: postgresql, version: '16', replicas: 1, hibernate: true",
			"one after the other",
		},
		"to hibernate": {
			"engine: postgresql, version: '16', replicas: 3", "engine: postgresql, version: '16', replicas: 3, hibernate: true", "",
		},
		"other class": {
			"engine: postgresql, version: '16', storageClassName: a", "engine: postgresql, version: '16', storageClassName: b",
			"the class of a claim cannot change",
		},
		"now a class": {
			"engine: postgresql, version: '16'", "engine: postgresql, version: '16', storageClassName: b",
			"the class of a claim cannot change",
		},
		"other database": {
			"engine: postgresql, version: '16'", "engine: postgresql, version: '16', databaseName: b", "has its name for good",
		},
		"other owner": {
			"engine: postgresql, version: '16'", "engine: postgresql, version: '16', username: b", "has its name for good",
		},
		"a beginning": {
			"engine: postgresql, version: '16'", "engine: postgresql, version: '16', bootstrapFrom: {backupRef: {claimName: a}}",
			"begins once",
		},
		"mysql scaled": {
			"engine: mysql, version: '8.4'", "engine: mysql, version: '8.4', replicas: 2", "replication is not supported for mysql",
		},
	} {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			name := strings.ReplaceAll(why, " ", "-")
			k.Apply(object(t, "Database", name, "{storage: 1Gi, "+c.from+"}"))
			o := object(t, "Database", name, "{storage: 1Gi, "+c.to+"}")
			if c.want == "" {
				k.Apply(o)
			} else if answer := change(t, k, o); !strings.Contains(answer, c.want) || strings.Contains(answer, "conversion") {
				t.Errorf("%s\nwant %q", answer, c.want)
			}
		})
	}
}

// change updates the stored object with the spec of o and returns the message of a rejection.
func change(t *testing.T, k *testkit.K, o *unstructured.Unstructured) string {
	t.Helper()
	stored := o.DeepCopy()
	k.Get(stored)
	stored.Object["spec"] = o.Object["spec"]
	err := k.Client.Update(k.Context(), stored)
	if err == nil {
		t.Fatalf("%s may become %v", o.GetName(), o.Object["spec"])
	}
	return err.Error()
}

// Storage cannot shrink below status.storage. An expansion that was not granted may be undone. Status writes of the operator
// are never rejected by this rule.
func TestStorageNeverShrinks(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	sized := func(size string) *unstructured.Unstructured {
		return object(t, "Database", "a", "{engine: postgresql, version: '16', storage: "+size+"}")
	}
	k.Apply(sized("20Gi"))
	k.Apply(sized("10Gi"))
	db := &v1.Database{}
	db.Name = "a"
	k.UpdateStatus(db, func() { db.Status.Storage = "10Gi" })
	k.Apply(sized("10Ti"))
	k.Apply(sized("15Gi"))
	k.Apply(sized("10240Mi"))
	if answer := change(t, k, sized("9Gi")); !strings.Contains(answer, "ask for no less than status.storage") {
		t.Error(answer)
	}
	k.UpdateStatus(db, func() { db.Status.Storage = "1Ti" }) // any value is accepted
	k.UpdateStatus(db, func() { db.Status.State = "Ready" })
}
