package database

import "github.com/homeostat-dev/homeostat/sdk"

// NewRoles returns the controller that says of each pod of a database whether it is the primary or a replica.
func NewRoles() *sdk.Custom { return &sdk.Custom{Name: "database-roles"} }
