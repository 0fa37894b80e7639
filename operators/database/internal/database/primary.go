package database

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat-dev/homeostat/operators/database/internal/database/desired"
	"github.com/homeostat-dev/homeostat/sdk"
)

// Annotations for a primary that has lost its volume. Without them it refuses to start, because clients would mistake an
// empty database for theirs. Each acts once.
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
	with, recovered := was[desired.DataClaimKey], was[desired.RecoveredKey]
	if r.server.PrimaryReady() {
		with = string(claim.UID)
		recovered = db.Annotations[RecoverAnnotation]
	}
	state := map[string]string{}
	if with != "" {
		state[desired.DataClaimKey] = with
	}
	if recovered != "" && recovered == db.Annotations[RecoverAnnotation] {
		state[desired.RecoveredKey] = recovered
	}
	lost := with != string(claim.UID) && !r.server.PrimaryReady()
	switch hasData := with != "" || was[desired.HasDataKey] != "" || db.Status.Restored != ""; {
	case !hasData, lost && r.beginsAnew(claim):
		return state
	case lost:
		if host := r.recoverFrom(state[desired.RecoveredKey]); host != "" {
			state[desired.RecoverFromKey] = host
		}
	}
	state[desired.HasDataKey] = "true"
	return state
}

// beginsAnew reports whether the primary may begin with an empty database in this claim.
func (r *reconciliation) beginsAnew(claim *corev1.PersistentVolumeClaim) bool {
	value := r.Object.Annotations[BeginAnewAnnotation]
	if value != "" && value != string(claim.UID) {
		r.SetNotReady("BeginAnewIgnored", "annotation %s is %q, which is not the UID of claim %s: that is %s", BeginAnewAnnotation,
			value, desired.ClaimName(r.Object, 0), claim.UID)
	}
	return value != "" && value == string(claim.UID)
}

// recoverFrom returns the host of the replica whose data the primary gets; "" if there is none. used is the annotation of a
// recovery that was carried out.
func (r *reconciliation) recoverFrom(used string) string {
	db := r.Object
	value := db.Annotations[RecoverAnnotation]
	switch member, err := strconv.Atoi(value); {
	case value == "":
	case err != nil || member < 1 || member >= int(db.Members()):
		r.SetNotReady("RecoveryIgnored", "annotation %s is %q, and can be the number of a replica: 1 to %d", RecoverAnnotation,
			value, db.Members()-1)
	case value == used:
		r.SetNotReady("RecoveryIgnored", "annotation %s was used before: remove it, and set it again to recover once more",
			RecoverAnnotation)
	default:
		r.SetNotReady("Recovering", "the primary gets the data of member %d", member)
		return desired.MemberHost(db, member)
	}
	return ""
}
