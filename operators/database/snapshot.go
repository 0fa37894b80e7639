package database

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/sdk"
)

// NewSnapshots returns the operator of DBSnapshots.
func NewSnapshots(options Options) *sdk.Operator[*v1.DBSnapshot] {
	return &sdk.Operator[*v1.DBSnapshot]{
		Name:        "dbsnapshot",
		Doc:         "The dbsnapshot operator makes copies of databases on time.",
		AddToScheme: v1.AddToScheme,
		Owns:        []client.Object{&batchv1.Job{}},
		Reconcile:   func(context.Context, *sdk.Pass[*v1.DBSnapshot]) error { return nil },
	}
}
