package database

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database/desired"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database/status"
	dbsnapshot "github.com/homeostat-dev/homeostat/operators/database/internal/dbsnapshot/desired"
	"github.com/homeostat-dev/homeostat/sdk"
)

// bootstrapSource is the origin of the initial data of a Database.
type bootstrapSource struct {
	claim, dump string // dump of a claim; an empty name means the newest
	volume      string // name of a VolumeSnapshot
}

// findBootstrapSource resolves spec.bootstrapFrom. It is called only until the Database has its data, so the source may be
// deleted afterwards.
func (r *reconciliation) findBootstrapSource() (bootstrapSource, error) {
	from := r.Object.Spec.BootstrapFrom
	if from.BackupRef != nil {
		return bootstrapSource{claim: from.BackupRef.ClaimName, dump: from.BackupRef.Name}, nil
	}
	copies, err := sdk.Ref(r.Pass, &v1.DBSnapshot{ObjectMeta: objectMeta(from.SnapshotRef.Name)})
	if err != nil {
		return bootstrapSource{}, err
	}
	copied, err := selectSnapshot(copies, from.SnapshotRef.Snapshot)
	if err != nil {
		return bootstrapSource{}, err
	}
	if copies.Spec.Method == v1.MethodVolumeSnapshot {
		return bootstrapSource{volume: copied}, nil
	}
	claim := copies.Spec.Storage.PersistentVolumeClaim.ClaimName
	if claim == "" {
		claim = dbsnapshot.OwnClaimName(copies)
	}
	return bootstrapSource{claim: claim, dump: copied}, nil
}

// selectSnapshot returns the name of an existing copy: the requested one, or the last one if name is empty.
func selectSnapshot(copies *v1.DBSnapshot, name string) (string, error) {
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

// restoring reports whether the initial data of the Database still have to be restored.
func (r *reconciliation) restoring() bool {
	return r.Object.Spec.BootstrapFrom != nil && r.Object.Status.Restored == ""
}

// inheritRestored sets status.restored from the claim of a predecessor. Its data were restored once and are not restored
// again. Data from another source are an error: they would be mistaken for those that spec.bootstrapFrom asks for.
func (r *reconciliation) inheritRestored() error {
	if !r.restoring() {
		return nil
	}
	claim, err := r.existingClaim(0)
	if err != nil || claim == nil {
		return err
	}
	if claim.Annotations[desired.SourceAnnotation] != desired.BootstrapDigest(r.Object) {
		return sdk.Invalid("DataExist", "claim %s has the data of a former Database, which did not begin with the "+
			"spec.bootstrapFrom of this one: to go on with them, make a Database of that name without spec.bootstrapFrom; to "+
			"restore, delete this Database and the claim, or use another name", claim.Name)
	}
	r.Object.Status.Restored = claim.Annotations[desired.RestoredAnnotation]
	return nil
}

// setDataSource makes a VolumeSnapshot the data source of the primary's claim if spec.bootstrapFrom refers to one.
func (r *reconciliation) setDataSource(member int, claim *corev1.PersistentVolumeClaim) error {
	if member != 0 || !r.restoring() {
		return nil
	}
	from, err := r.findBootstrapSource()
	if err != nil || from.volume == "" {
		return err
	}
	claim.Spec.DataSource = &corev1.TypedLocalObjectReference{
		APIGroup: new("snapshot.storage.k8s.io"), Kind: volumeSnapshot, Name: from.volume,
	}
	return nil
}

// applyRestore creates the Job that restores a dump before the first start of the server. It reports whether the Database
// has its initial data. Until then the Services select no pod.
func (r *reconciliation) applyRestore(need []sdk.AnyChild) (bool, error) {
	db := r.Object
	if !r.restoring() {
		return true, nil
	}
	live, exists := sdk.Live(r.Pass, &batchv1.Job{ObjectMeta: objectMeta(desired.RestoreName(db))})
	if exists {
		return r.restoreSucceeded(live), nil
	}
	data, _ := sdk.Live(r.Pass, &corev1.PersistentVolumeClaim{ObjectMeta: objectMeta(desired.ClaimName(db, 0))})
	if source := data.Spec.DataSource; source != nil && source.Kind == volumeSnapshot { // even if it was deleted
		if r.server.PrimaryReady() {
			db.Status.Restored = source.Name
		}
		return r.server.PrimaryReady(), nil
	}
	from, err := r.findBootstrapSource()
	switch {
	case err != nil:
		return false, err
	case from.volume != "":
		return false, nil
	}
	r.restoreRunning = true
	job := desired.RestoreJob(db, r.image, desired.ScriptsName(db, r.scripts), from.claim, from.dump)
	sdk.Apply(r.Pass, job, sdk.CreateOnly(), sdk.AfterCreated(need...))
	r.SetNotReady("Restoring", "the data are being restored from %s", describeSource(from))
	return false, nil
}

// restoreSucceeded evaluates the Job, which stays in the plan until it has succeeded, and reports whether it has. A failed
// Job is retried after a user deletes it.
func (r *reconciliation) restoreSucceeded(job *batchv1.Job) bool {
	db := r.Object
	if hasCondition(job, batchv1.JobComplete) {
		db.Status.Restored = fmt.Sprintf("Job %s", job.Name)
		if what := status.Restored(r.pods); what != "" {
			db.Status.Restored = what
		}
		return true
	}
	r.restoreRunning = true
	sdk.Apply(r.Pass, &batchv1.Job{ObjectMeta: objectMeta(job.Name)}, sdk.CreateOnly(), sdk.ReadyWhen(
		func(*batchv1.Job) (bool, string) { return true, "" })) // SetNotReady reports it
	if !hasCondition(job, batchv1.JobFailed) {
		r.SetNotReady("Restoring", "the data are being restored by Job %s", job.Name)
		return false
	}
	r.SetNotReady(status.ReasonRestoreFailed, "%s: correct the cause, and delete Job %s to have it tried again",
		status.RestoreFailure(r.pods, job), job.Name)
	return false
}

func hasCondition(job *batchv1.Job, condition batchv1.JobConditionType) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == condition && c.Status == corev1.ConditionTrue
	})
}

func describeSource(from bootstrapSource) string {
	if from.dump == "" {
		return "the newest dump in claim " + from.claim
	}
	return fmt.Sprintf("dump %s in claim %s", from.dump, from.claim)
}
