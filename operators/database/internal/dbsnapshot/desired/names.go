package desired

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
)

// Manager is the name of the operator and the value of the managed-by label on its objects.
const Manager = "dbsnapshot"

// OwnerLabel names the DBSnapshot on objects that may outlive it.
const OwnerLabel = "techoral.com/dbsnapshot"

// RunName returns the name of the copy for one scheduled time, and of its Job. The name uses UTC, so a clock change does not
// affect it.
func RunName(o *v1.DBSnapshot, due time.Time) string {
	return o.Name + "-" + due.UTC().Format("200601021504")
}

// ImmediateName returns the name of the copy that is made at once. It contains the creation time, so a successor of the same
// name does not mistake an old copy for its own.
func ImmediateName(o *v1.DBSnapshot) string {
	return o.Name + "-" + o.CreationTimestamp.UTC().Format("20060102150405")
}

// PruneName returns the name of the Job that prunes dumps after a copy.
func PruneName(after string) string { return after + "-prune" }

// FinalPruneName returns the name of the Job that deletes all dumps together with the DBSnapshot.
func FinalPruneName(o *v1.DBSnapshot) string { return o.Name + "-farewell" }

// OwnClaimName returns the name of the claim that the DBSnapshot creates.
func OwnClaimName(o *v1.DBSnapshot) string { return o.Name + "-snapshots" }

// ScriptsName returns the name of the ConfigMap with these scripts. It depends on their content, because the scripts of a
// running Job must not change.
func ScriptsName(o *v1.DBSnapshot, scripts map[string]string) string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(scripts)) {
		fmt.Fprintf(sum, "%q %q\n", name, scripts[name])
	}
	return o.Name + "-snapshot-scripts-" + hex.EncodeToString(sum.Sum(nil)[:5])
}
