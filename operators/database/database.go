// Package database runs a database server with its data for each Database, and makes copies of databases on time for each
// DBSnapshot.
//
// The operators are in this package; what the children look like is in internal/desired, what the status says in
// internal/report, and how both become requests is the SDK's business.
package database

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/sdk"
)

// New returns the operator of Databases.
func New(options Options) *sdk.Operator[*v1.Database] {
	return &sdk.Operator[*v1.Database]{
		Name:        "database",
		Doc:         "The database operator runs database servers whose data outlive whatever happens to them.",
		AddToScheme: v1.AddToScheme,
		Owns:        []client.Object{&corev1.Secret{}, &appsv1.StatefulSet{}},
		Reconcile:   func(context.Context, *sdk.Pass[*v1.Database]) error { return nil },
		Paused:      func(db *v1.Database) bool { return db.Spec.Paused },
	}
}
