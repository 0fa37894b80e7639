package desired

import (
	"path"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/podsecurity"
)

// Components of the pods that are not members.
const (
	BackupComponent  = "backup"
	RestoreComponent = "restore"
)

// dumpDeadline limits the duration of a dump. A hanging dump would block all later ones.
const dumpDeadline = 24 * time.Hour

// BackupCronJob returns the CronJob of the dumps. A scheduled time is skipped while the previous dump is still running. data
// is the UID of the primary's claim, "" before it has data: its dumps are a series, so that a later database of the same
// name does not delete those of other data.
func BackupCronJob(db *v1.Database, image, scripts, data string) *batchv1.CronJob {
	backup := &db.Spec.Backup
	c := container(db, image, DumpContainer, "dump.sh")
	c.Env = append(c.Env,
		corev1.EnvVar{Name: "PORT", Value: strconv.Itoa(int(Port(db.Spec.Engine)))},
		corev1.EnvVar{Name: "BACKUPS", Value: backupsPath},
		corev1.EnvVar{Name: "HOST", Value: MemberHost(db, 0)},
		corev1.EnvVar{Name: "SCOPE", Value: "server"},
		corev1.EnvVar{Name: "SERIES", Value: path.Join("backup", db.Name, data)},
		corev1.EnvVar{Name: "NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{
			FieldPath: "metadata.labels['batch.kubernetes.io/job-name']", // ends with the scheduled time
		}}},
		corev1.EnvVar{Name: "KEEP", Value: strconv.Itoa(int(backup.Retention.Count))},
		corev1.EnvVar{Name: "VERIFY", Value: "list"})
	if age := backup.Retention.MaxAge; age != nil {
		c.Env = append(c.Env, corev1.EnvVar{Name: "KEEP_FOR", Value: strconv.Itoa(int(age.Seconds()))})
	}
	spec := job(db, c, volumesOf(db, scripts, []corev1.KeyToPath{{Key: DumpPasswordKey, Path: DumpPasswordKey}}),
		BackupComponent, BackupName(db), false)
	spec.ActiveDeadlineSeconds = new(int64(dumpDeadline.Seconds()))
	return &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Name: BackupName(db), Labels: labels(db)},
		Spec: batchv1.CronJobSpec{
			Schedule: backup.Schedule, TimeZone: new(backup.TimeZone), Suspend: new(backup.Suspend || db.Spec.Hibernate),
			ConcurrencyPolicy: batchv1.ForbidConcurrent, StartingDeadlineSeconds: new(int64(3600)),
			SuccessfulJobsHistoryLimit: new(int32(3)), FailedJobsHistoryLimit: new(int32(3)),
			JobTemplate: batchv1.JobTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels(db)},
				Spec:       spec,
			},
		},
	}
}

// RestoreJob returns the Job that creates the data directory of the primary from a dump, before the first start of the
// server. It has no deadline.
func RestoreJob(db *v1.Database, image, scripts, claim, name string) *batchv1.Job {
	c := member(db, image, "restore", "restore.sh")
	c.Env = slices.DeleteFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "MEMBER" || e.Name == "BEGUN" })
	c.Env = append(c.Env,
		corev1.EnvVar{Name: "MEMBER", Value: "0"},
		corev1.EnvVar{Name: "BACKUPS", Value: backupsPath},
		corev1.EnvVar{Name: "NAME", Value: name})
	volumes := append(memberVolumes(db, scripts), corev1.Volume{
		Name: DataVolume, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{
			ClaimName: ClaimName(db, 0),
		}},
	})
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: RestoreName(db), Labels: labels(db)},
		Spec:       job(db, c, volumes, RestoreComponent, claim, true),
	}
}

func job(
	db *v1.Database, c corev1.Container, volumes []corev1.Volume, component, claim string, readOnly bool,
) batchv1.JobSpec {
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: backupsVolume, MountPath: backupsPath, ReadOnly: readOnly})
	more := db.Spec.PodTemplate
	if more == nil {
		more = &v1.PodTemplate{}
	}
	return batchv1.JobSpec{
		BackoffLimit: new(int32(2)),
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: podLabels(db, component), Annotations: more.Annotations},
			Spec: corev1.PodSpec{
				Containers: []corev1.Container{c}, RestartPolicy: corev1.RestartPolicyNever,
				Volumes: append(volumes, corev1.Volume{
					Name: backupsVolume, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{
						ClaimName: claim, ReadOnly: readOnly,
					}},
				}),
				ImagePullSecrets:             db.Spec.ImagePullSecrets,
				SecurityContext:              podsecurity.Context(more.SecurityContext),
				AutomountServiceAccountToken: new(false),
				EnableServiceLinks:           new(false),
				NodeSelector:                 more.NodeSelector,
				Tolerations:                  more.Tolerations,
				Affinity:                     more.Affinity,
				PriorityClassName:            more.PriorityClassName,
			},
		},
	}
}
