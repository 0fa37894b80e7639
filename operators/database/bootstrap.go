package database

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/desired"
	"github.com/homeostat-dev/homeostat/operators/database/internal/report"
	"github.com/homeostat-dev/homeostat/operators/database/internal/snapshot"
	"github.com/homeostat-dev/homeostat/sdk"
)

// origin is what a Database begins with.
type origin struct {
	claim, dump string // of a dump: the claim, and its name, "" for the newest
	volume      string // of a volume: the VolumeSnapshot
}

// origin finds what the Database begins with. It is asked for only until the Database has begun, so that what it began with
// may go afterwards.
func (is *observed) origin() (origin, error) {
	from := is.Object.Spec.BootstrapFrom
	if from.BackupRef != nil {
		return origin{claim: from.BackupRef.ClaimName, dump: from.BackupRef.Name}, nil
	}
	copies, err := sdk.Ref(is.Pass, &v1.DBSnapshot{ObjectMeta: named(from.SnapshotRef.Name)})
	if err != nil {
		return origin{}, err
	}
	copied, err := chosen(copies, from.SnapshotRef.Snapshot)
	if err != nil {
		return origin{}, err
	}
	if copies.Spec.Method == v1.MethodVolumeSnapshot {
		return origin{volume: copied}, nil
	}
	claim := copies.Spec.Storage.PersistentVolumeClaim.ClaimName
	if claim == "" {
		claim = snapshot.ClaimName(copies)
	}
	return origin{claim: claim, dump: copied}, nil
}

// chosen returns the name of a copy that is there: the one that is asked for, or the last.
func chosen(copies *v1.DBSnapshot, name string) (string, error) {
	if name == "" {
		if last := copies.Status.LastSnapshot; last != nil {
			return last.Name, nil
		}
		return "", sdk.Wait("SnapshotNotReady", "DBSnapshot %s has no copy that succeeded yet", copies.Name)
	}
	at := slices.IndexFunc(copies.Status.History, func(r v1.SnapshotRecord) bool { return r.Name == name && r.Location != "" })
	if at < 0 {
		return "", sdk.Invalid("SnapshotNotFound", "DBSnapshot %s has no copy %s that succeeded: name one of its status.history "+
			"in spec.bootstrapFrom.snapshotRef.snapshot, in a new Database", copies.Name, name)
	}
	return name, nil
}

const volumeSnapshot = "VolumeSnapshot"

// restoring reports whether the data have yet to be put in place that the Database begins with.
func (is *observed) restoring() bool {
	return is.Object.Spec.BootstrapFrom != nil && is.Object.Status.Restored == ""
}

// recallRestored has a Database that takes over the data of a former one, which were restored, begin with those.
func (is *observed) recallRestored() error {
	if !is.restoring() {
		return nil
	}
	claim, err := is.leftClaim()
	if err == nil && claim != nil {
		is.Object.Status.Restored = claim.Annotations[desired.RestoredAnnotation]
	}
	return err
}

// bootstrapVolume has the claim of the primary begin as a copy of another volume, if the Database does.
func (is *observed) bootstrapVolume(member int, claim *corev1.PersistentVolumeClaim) error {
	if member != 0 || !is.restoring() {
		return nil
	}
	from, err := is.origin()
	if err != nil || from.volume == "" {
		return err
	}
	claim.Spec.DataSource = &corev1.TypedLocalObjectReference{
		APIGroup: new("snapshot.storage.k8s.io"), Kind: volumeSnapshot, Name: from.volume,
	}
	return nil
}

// restore sees to the Job that puts a dump in place, once there is a primary for it, and reports whether the Database has
// its data. Until then no client reaches it.
func (is *observed) restore(need []sdk.Planned) (bool, error) {
	db := is.Object
	if !is.restoring() {
		return true, nil
	}
	live, exists := sdk.Live(is.Pass, &batchv1.Job{ObjectMeta: named(desired.RestoreName(db))})
	if exists {
		return is.restored(live), nil
	}
	data, _ := sdk.Live(is.Pass, &corev1.PersistentVolumeClaim{ObjectMeta: named(desired.ClaimName(db, 0))})
	if source := data.Spec.DataSource; source != nil && source.Kind == volumeSnapshot { // whatever became of that since
		if is.server.PrimaryReady() {
			db.Status.Restored = source.Name
		}
		return is.server.PrimaryReady(), nil
	}
	from, err := is.origin()
	switch {
	case err != nil:
		return false, err
	case from.volume != "" && data.UID != "":
		return false, sdk.Invalid("DataExist", "claim %s has the data of a former Database, and spec.bootstrapFrom asks for "+
			"those of VolumeSnapshot %s: delete this Database and the claim, or make a Database of that name without "+
			"spec.bootstrapFrom", data.Name, from.volume)
	case from.volume != "", !is.server.PrimaryReady():
		return false, nil
	}
	job := desired.Restore(db, is.image, desired.ScriptsName(db, is.scripts), from.claim, from.dump)
	sdk.Apply(is.Pass, job, sdk.CreateOnly(), sdk.AfterCreated(need...))
	is.NotReady("Restoring", "the data are being restored from %s", describe(from))
	return false, nil
}

// restored reads what became of the Job, which stays in the plan until it has succeeded. One that failed is tried again when
// somebody deletes it.
func (is *observed) restored(job *batchv1.Job) bool {
	db := is.Object
	if has(job, batchv1.JobComplete) {
		db.Status.Restored = fmt.Sprintf("Job %s", job.Name)
		if what := report.Restored(is.pods); what != "" {
			db.Status.Restored = what
		}
		return true
	}
	sdk.Apply(is.Pass, &batchv1.Job{ObjectMeta: named(job.Name)}, sdk.CreateOnly(), sdk.ReadyWhen(
		func(*batchv1.Job) (bool, string) { return true, "" })) // of which NotReady tells
	if !has(job, batchv1.JobFailed) {
		is.NotReady("Restoring", "the data are being restored by Job %s", job.Name)
		return false
	}
	is.NotReady(report.ReasonRestoreFailed, "%s: correct the cause, and delete Job %s to have it tried again",
		report.RestoreFailure(is.pods, job), job.Name)
	return false
}

func has(job *batchv1.Job, condition batchv1.JobConditionType) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == condition && c.Status == corev1.ConditionTrue
	})
}

func describe(from origin) string {
	if from.dump == "" {
		return "the newest dump in claim " + from.claim
	}
	return fmt.Sprintf("dump %s in claim %s", from.dump, from.claim)
}
