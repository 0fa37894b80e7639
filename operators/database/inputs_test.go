package database_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database/desired"
	"github.com/homeostat-dev/homeostat/testkit"
)

// stored are objects as users of the release 0.2.0 have stored them, with the digest of the fields that the pods depend on.
var stored = map[string]struct{ object, inputs string }{
	"only required fields": {`
metadata: {name: a}
spec: {engine: postgresql, version: "16", storage: 1Gi}
`, "5f7170305d37"},
	"all fields of the pods": {`
metadata: {name: b}
spec:
  engine: mariadb
  version: "10.11"
  storage: 1Gi
  image: mirror/mariadb:10.11
  imagePullPolicy: IfNotPresent
  imagePullSecrets: [{name: pull}]
  resources: {requests: {cpu: 200m, memory: 512Mi}, limits: {memory: 2Gi}}
  databaseName: shop
  username: owner
  credentialsSecretRef: {name: login}
  configuration: {max_connections: 200}
  podTemplate:
    annotations: {team: shop}
    nodeSelector: {disk: fast}
    tolerations: [{key: databases, operator: Exists}]
    priorityClassName: high
    terminationGracePeriodSeconds: 60
`, "e0c407dfffdb"},
}

// The digest of a stored object does not change with a release, because a change restarts the servers of all users at once,
// outside of the limit --max-upgrading. If this test fails, a new default of the CRD or a change of the Go types has
// changed the digest. Make the new field optional without a default, and give the default in the code that builds the pod
// template: a new template alone restarts nothing. Change a digest here only before a release that has to restart all
// databases, and announce that in the changelog.
func TestInputsOfStoredObjects(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	for name, c := range stored {
		db := &v1.Database{}
		if err := yaml.UnmarshalStrict([]byte(c.object), db); err != nil {
			t.Fatal(err)
		}
		k.Apply(db)
		k.Get(db) // with the defaults of the CRD
		set, err := desired.StatefulSet(db, desired.PinnedTemplate{}, corev1.PodTemplateSpec{}, resource.MustParse("1Gi"), true)
		if err != nil {
			t.Fatal(err)
		}
		if got := set.Annotations["techoral.com/inputs"]; got != c.inputs {
			t.Errorf("%s: the digest is %s, want %s", name, got, c.inputs)
		}
	}
}
