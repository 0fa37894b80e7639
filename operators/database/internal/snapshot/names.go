package snapshot

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
)

// Manager is the name of the operator, and the value of the label managed-by on all that it makes.
const Manager = "dbsnapshot"

// OwnerLabel names the DBSnapshot on what may outlive it.
const OwnerLabel = "techoral.com/dbsnapshot"

// RunName is the name of the copy of one time of the schedule, and of what makes it. Each time has one name, wherever the
// clocks of people are turned.
func RunName(o *v1.DBSnapshot, due time.Time) string {
	return o.Name + "-" + due.UTC().Format("200601021504")
}

// AtOnceName is the name of the copy that is made at once. A DBSnapshot has one of them; another one of the same name, made
// later, has another, and so does not take an old copy for its own.
func AtOnceName(o *v1.DBSnapshot) string {
	return o.Name + "-" + o.CreationTimestamp.UTC().Format("20060102150405")
}

// PruneName is the name of the Job that lets old dumps go after a copy was made.
func PruneName(after string) string { return after + "-prune" }

// FarewellName is the name of the Job that deletes all dumps when the DBSnapshot goes.
func FarewellName(o *v1.DBSnapshot) string { return o.Name + "-farewell" }

// ClaimName is the name of the claim of a DBSnapshot's own.
func ClaimName(o *v1.DBSnapshot) string { return o.Name + "-snapshots" }

// ScriptsName is the name of the ConfigMap with these scripts. Others have another name, because those of a Job that runs
// must not change under it.
func ScriptsName(o *v1.DBSnapshot, scripts map[string]string) string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(scripts)) {
		fmt.Fprintf(sum, "%q %q\n", name, scripts[name])
	}
	return o.Name + "-snapshot-scripts-" + hex.EncodeToString(sum.Sum(nil)[:5])
}
