package database_test

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
	"testing"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/testkit"
)

func state(want v1.State) testkit.Check {
	return testkit.Match("state "+string(want), func(db *v1.Database) bool { return db.Status.State == want })
}

func TestArticle(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	db := newDatabase("orders-db")
	k.Apply(db)
	k.Eventually(db, testkit.Ready(), state(v1.Ready))
	t.Logf("%+v", db.Status)
}

func TestX(t *testing.T) {
	k := testkit.New(t)
	op := start(k)
	db := newDatabase("orders-db")
	k.Apply(db)
	k.Eventually(db, testkit.Ready(), state(v1.Ready))
	rest(k, op)
	for _, r := range op.Requests() {
		t.Log(r)
	}
	raw, _ := yaml.Marshal(db.Status)
	t.Log(string(raw))
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "orders-db-db"}}
	k.Get(set)
	set.ManagedFields = nil
	raw, _ = yaml.Marshal(set)
	t.Log(string(raw))
}
