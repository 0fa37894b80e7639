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

func TestBadDatabasesAreRefusedWithASentence(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	const good = "engine: postgresql, version: '16', storage: 1Gi"
	for why, c := range map[string]struct{ name, spec, field, want string }{
		"long name":           {strings.Repeat("a", 43), good, "metadata", "choose at most 42"},
		"name with a dot":     {"a.b", good, "metadata", "choose at most 42"},
		"name from a digit":   {"1a", good, "metadata", "beginning with a letter"},
		"no engine":           {"a", "version: '16', storage: 1Gi", "spec.engine", "Required value"},
		"no version":          {"a", "engine: mysql, storage: 1Gi", "spec.version", "Required value"},
		"no storage":          {"a", "engine: mysql, version: '8'", "spec.storage", "Required value"},
		"unknown engine":      {"a", "engine: oracle, version: '16', storage: 1Gi", "spec.engine", "Unsupported value"},
		"latest":              {"a", "engine: postgresql, version: latest, storage: 1Gi", "spec.version", "must begin with the number"},
		"injected tag":        {"a", "engine: postgresql, version: '16@sha256:1', storage: 1Gi", "spec.version", "must begin with"},
		"storage of nothing":  {"a", "engine: postgresql, version: '16', storage: 0Gi", "spec.storage", "greater than 0 in Mi, Gi or Ti"},
		"storage in bytes":    {"a", "engine: postgresql, version: '16', storage: '100'", "spec.storage", "in Mi, Gi or Ti"},
		"no replicas":         {"a", good + ", replicas: 0", "spec.replicas", "greater than or equal to 1"},
		"six replicas":        {"a", good + ", replicas: 6", "spec.replicas", "less than or equal to 5"},
		"replicas of mysql":   {"a", "engine: mysql, version: '8.4', storage: 1Gi, replicas: 2", "spec.replicas", "not supported for mysql"},
		"image with a space":  {"a", good + ", image: 'a b'", "spec.image", "no white space"},
		"setting of ours":     {"a", good + ", configuration: {listen_addresses: '*'}", "spec.configuration", "the operator's own"},
		"with a dash":         {"a", good + ", configuration: {server-id: '3'}", "spec.configuration", "the operator's own"},
		"two lines":           {"a", good + `, configuration: {work_mem: "4MB\nport = 1"}`, "spec.configuration", "has one line"},
		"name of no setting":  {"a", good + ", configuration: {'a b': '1'}", "spec.configuration", "letters, digits, dashes"},
		"database of its own": {"a", good + ", databaseName: postgres", "spec.databaseName", "that the server has itself"},
		"quoted database":     {"a", good + `, databaseName: 'a"b'`, "spec.databaseName", "lower-case letters"},
		"owner of its own":    {"a", good + ", username: replication", "spec.username", "that the server has itself"},
		"no schedule":         {"a", good + ", backup: {schedule: daily}", "spec.backup.schedule", "must have five fields"},
		"six fields":          {"a", good + ", backup: {schedule: '0 0 2 * * *'}", "spec.backup.schedule", "must have five fields"},
		"no time zone":        {"a", good + ", backup: {timeZone: ''}", "spec.backup.timeZone", "at least 1 chars long"},
		"keep no dump":        {"a", good + ", backup: {retention: {count: 0}}", "spec.backup.retention.count", "greater than or equal to 1"},
		"backup of nothing":   {"a", good + ", backup: {storage: {size: 0Gi}}", "spec.backup.storage.size", "greater than 0"},
		"two beginnings": {
			"a", good + ", bootstrapFrom: {snapshotRef: {name: a}, backupRef: {claimName: a}}", "spec.bootstrapFrom", "exactly one",
		},
		"no beginning":   {"a", good + ", bootstrapFrom: {}", "spec.bootstrapFrom", "exactly one"},
		"path of dump":   {"a", good + ", bootstrapFrom: {backupRef: {claimName: a, name: ../b}}", "spec.bootstrapFrom.backupRef.name", "without a path"},
		"other policy":   {"a", good + ", deletionPolicy: Keep", "spec.deletionPolicy", "Unsupported value"},
		"short farewell": {"a", good + ", podTemplate: {terminationGracePeriodSeconds: 1}", "spec.podTemplate.terminationGracePeriodSeconds", "greater than or equal to 10"},
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
