package database_test

import (
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
