// Package database runs a database server with its data for each Database, and makes scheduled copies of databases for each
// DBSnapshot.
//
// This file is the list of its operators. Each has a package of its own: internal/database and internal/dbsnapshot.
package database

import (
	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database"
	"github.com/homeostat-dev/homeostat/operators/database/internal/dbsnapshot"
	"github.com/homeostat-dev/homeostat/operators/database/internal/metrics"
	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/program"
)

// Program returns the program of the operators.
func Program() *program.Program {
	var options Options
	return &program.Program{
		Name: "database",
		Doc: "The database operator runs PostgreSQL, MariaDB and MySQL servers, keeps their data after failures, " +
			"upgrades and, by default, deletion, and makes copies of databases on time.",
		Flags: options.BindFlags,
		Operators: func() ([]program.Runnable, error) {
			if err := options.Validate(); err != nil {
				return nil, err
			}
			return []program.Runnable{New(options), NewSnapshots(options), NewMetrics(), NewRoles(), NewUpgrades(options)}, nil
		},
	}
}

// New returns the operator of Databases.
func New(o Options) *sdk.Operator[*v1.Database] {
	return database.New(database.Options{
		Image: o.Image, ClusterDomain: o.clusterDomain(), UpgradeTemplates: o.UpgradeTemplates, Now: o.Now,
	})
}

// NewSnapshots returns the operator of DBSnapshots.
func NewSnapshots(o Options) *sdk.Operator[*v1.DBSnapshot] {
	return dbsnapshot.New(dbsnapshot.Options{Image: o.Image, Now: o.Now})
}

// NewRoles returns the controller that labels each pod of a database as primary or replica.
func NewRoles() *program.CustomController { return database.NewRoles() }

// NewUpgrades returns the controller that limits how many databases a new version of the operator restarts at a time.
func NewUpgrades(o Options) *program.CustomController {
	return database.NewUpgrades(max(1, o.MaxUpgrading))
}

// NewMetrics returns the runnable that serves metrics of Databases and DBSnapshots.
func NewMetrics() *program.CustomController { return metrics.New() }
