package database

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat-dev/homeostat/operators/database/internal/database/desired"
	"github.com/homeostat-dev/homeostat/sdk"
)

// Annotations for a primary that has lost its volume. Without them it refuses to start, because clients would mistake an empty
// database for theirs. Each acts once.
const (
	// BeginAnewAnnotation, with the UID of the primary's new claim, lets the primary begin with an empty database.
	BeginAnewAnnotation = "techoral.com/begin-anew"
	// RecoverAnnotation, with the number of a replica, makes the data of that replica those of the primary.
	RecoverAnnotation = "techoral.com/recover-from-member"
)

// primaryState returns the keys of the ConfigMap that decide what a primary without data does.
func (r *reconciliation) primaryState() map[string]string {
	db, was := r.Object, r.settings.Data
	claim, _ := sdk.Live(r.Pass, &corev1.PersistentVolumeClaim{ObjectMeta: objectMeta(desired.ClaimName(db, 0))})
	state := map[string]string{}
	set := func(key, value string) {
		if value != "" {
			state[key] = value
		}
	}
	ready := r.server.PrimaryReady()
	begun, recovered := was[desired.DataClaimKey], was[desired.RecoveredKey]
	recover := db.Annotations[RecoverAnnotation]
	if ready {
		begun = string(claim.UID)
		recovered = recover
	}
	hasData := begun != "" || was[desired.HasDataKey] != "" || db.Status.Restored != ""
	set(desired.DataClaimKey, begun)
	if recovered == recover {
		set(desired.RecoveredKey, recovered)
	}
	anew := db.Annotations[BeginAnewAnnotation]
	if !hasData || ready || begun == string(claim.UID) {
		if hasData {
			state[desired.HasDataKey] = "true"
		}
		return state
	}
	switch member, err := strconv.Atoi(recover); {
	case anew != "" && anew == string(claim.UID):
		return state
	case anew != "":
		r.SetNotReady("BeginAnewIgnored", "annotation %s is %q, which is not the UID of claim %s: that is %s", BeginAnewAnnotation,
			anew, desired.ClaimName(db, 0), claim.UID)
	case recover == "":
	case err != nil || member < 1 || member >= int(db.Members()):
		r.SetNotReady("RecoveryIgnored", "annotation %s is %q, and can be the number of a replica: 1 to %d", RecoverAnnotation,
			recover, db.Members()-1)
	case recover == recovered:
		r.SetNotReady("RecoveryIgnored", "annotation %s was used before: remove it, and set it again to recover once more",
			RecoverAnnotation)
	default:
		state[desired.RecoverFromKey] = desired.MemberHost(db, member)
		r.SetNotReady("Recovering", "the primary gets the data of member %d", member)
	}
	state[desired.HasDataKey] = "true"
	return state
}
