package desired

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/podsecurity"
	"github.com/homeostat-dev/homeostat/sdk"
)

// Source has the server's connection parameters and the settings of the pods that make dumps.
type Source struct {
	Engine   v1.Engine
	Image    string
	Host     string
	Port     int32
	Database string
	User     string
	SSLMode  string
	// CA is the Secret key with the certificates of the authorities that the server is verified with. Nil means none.
	CA *corev1.SecretKeySelector
	// Password is the Secret key with the user's password.
	Password         corev1.SecretKeySelector
	ImagePullPolicy  corev1.PullPolicy
	ImagePullSecrets []corev1.LocalObjectReference
	// Pod has the scheduling settings of the server's pods, used for the Job's pods as well. Nil means none.
	Pod *v1.PodTemplate
	// Claim is the source claim of VolumeSnapshots.
	Claim string
	// Server makes dumps of the whole server, not of one database. Password is that of the role for dumps.
	Server bool
	// ScratchSize and ScratchClass are those of the volume for a restored copy. Without a size it is on the node.
	ScratchSize  string
	ScratchClass *string
}

// Mount paths.
const (
	scriptsPath     = "/etc/database/scripts"
	credentialsPath = "/etc/database/credentials" //nolint:gosec // it is the path of the credentials.
	socketsPath     = "/run/database"
	backupsPath     = "/backups"
	caPath          = "/etc/database/ca"
	caFile          = "ca.crt" // in caPath
)

// pruneSeconds limits the duration of a prune Job. No dump starts meanwhile.
const pruneSeconds = 600

// DumpJob returns the Job that makes the named copy.
func DumpJob(o *v1.DBSnapshot, s *Source, scripts, name string) *batchv1.Job {
	dump := o.Spec.PgDump
	if dump == nil {
		dump = &v1.PgDump{}
	}
	format, compression := dump.Format, int32(6)
	switch {
	case s.Engine != v1.PostgreSQL: // its dumps are SQL, regardless of the field's default
		format = "plain"
	case format == "":
		format = "custom"
	}
	if dump.Compression != nil {
		compression = *dump.Compression
	}
	c := container(o, s, "dump", "dump.sh")
	c.Env = append(c.Env,
		corev1.EnvVar{Name: "HOST", Value: s.Host},
		corev1.EnvVar{Name: "PORT", Value: strconv.Itoa(int(s.Port))},
		corev1.EnvVar{Name: "DATABASE", Value: s.Database},
		corev1.EnvVar{Name: "DATABASE_USER", Value: s.User},
		corev1.EnvVar{Name: "CREDENTIALS", Value: credentialsPath},
		corev1.EnvVar{Name: "NAME", Value: name},
		corev1.EnvVar{Name: "SERIES", Value: "dbsnapshot/" + o.Name},
		corev1.EnvVar{Name: "KEEP", Value: "0"}, // the operator applies retention itself
		corev1.EnvVar{Name: "FORMAT", Value: format},
		corev1.EnvVar{Name: "COMPRESSION", Value: strconv.Itoa(int(compression))},
		corev1.EnvVar{Name: "GLOBALS", Value: strconv.FormatBool(dump.IncludeGlobals)},
		corev1.EnvVar{Name: "VERIFY", Value: o.Spec.Verify})
	passwordFile := "password"
	if s.Server {
		passwordFile = "dump-password"
		c.Env = append(c.Env, corev1.EnvVar{Name: "SCOPE", Value: "server"})
	}
	if s.Engine == v1.PostgreSQL {
		c.Env = append(c.Env, connectionVariables(s)...)
	}
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "credentials", MountPath: credentialsPath, ReadOnly: true})
	spec := job(o, s, scripts, c)
	spec.BackoffLimit = new(int32(2))
	spec.ActiveDeadlineSeconds = new(o.Spec.ActiveDeadlineSeconds)
	if o.Spec.BackoffLimit != nil {
		spec.BackoffLimit = new(*o.Spec.BackoffLimit)
	}
	pod := &spec.Template.Spec
	pod.Volumes = append(pod.Volumes, secretVolume("credentials", s.Password, passwordFile))
	if s.CA != nil {
		pod.Volumes = append(pod.Volumes, secretVolume("ca", *s.CA, caFile))
		pod.Containers[0].VolumeMounts = append(pod.Containers[0].VolumeMounts,
			corev1.VolumeMount{Name: "ca", MountPath: caPath, ReadOnly: true})
	}
	if o.Spec.Verify == "restore" {
		addScratch(pod, s)
	}
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels(o)}, Spec: spec}
}

// addScratch adds the volume for a restored copy. It has the size of the source, so that a large database does not fill the
// disk of the node.
func addScratch(pod *corev1.PodSpec, s *Source) {
	size, err := resource.ParseQuantity(s.ScratchSize)
	if err != nil {
		return // the copy is restored into the directory of the sockets
	}
	const name, path = "scratch", "/var/lib/scratch"
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: s.ScratchClass,
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: size}},
			},
		}},
	}})
	c := &pod.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: path})
	c.Env = append(c.Env, corev1.EnvVar{Name: "SCRATCH", Value: path})
}

// connectionVariables returns the variables of libpq that protect the password. Without PGREQUIREAUTH, which libpq has since
// version 16, a server that is not verified could ask for it in clear text.
func connectionVariables(s *Source) []corev1.EnvVar {
	all := []corev1.EnvVar{{Name: "PGREQUIREAUTH", Value: "scram-sha-256"}, {Name: "PGGSSENCMODE", Value: "disable"}}
	if s.SSLMode != "" {
		all = append(all, corev1.EnvVar{Name: "PGSSLMODE", Value: s.SSLMode})
	}
	if s.CA != nil {
		all = append(all, corev1.EnvVar{Name: "PGSSLROOTCERT", Value: caPath + "/" + caFile})
	}
	return all
}

// secretVolume returns a volume with one key of a Secret as a file.
func secretVolume(name string, key corev1.SecretKeySelector, file string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName: key.Name, DefaultMode: new(int32(0o440)), Items: []corev1.KeyToPath{{Key: key.Key, Path: file}},
	}}}
}

// PruneJob returns the Job that deletes the named dumps.
func PruneJob(o *v1.DBSnapshot, s *Source, scripts, name string, names []string) *batchv1.Job {
	c := container(o, s, "prune", "prune.sh")
	c.Env = append(c.Env, corev1.EnvVar{Name: "NAMES", Value: strings.Join(names, " ")})
	if last := o.Status.LastSnapshot; last != nil && !slices.Contains(names, last.Name) {
		c.Env = append(c.Env, corev1.EnvVar{Name: "LAST", Value: last.Name})
	}
	spec := job(o, s, scripts, c)
	spec.BackoffLimit = new(int32(2))
	spec.ActiveDeadlineSeconds = new(int64(pruneSeconds))
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels(o)}, Spec: spec}
}

// labels returns the labels of all created objects.
func labels(o *v1.DBSnapshot) map[string]string {
	return map[string]string{"app.kubernetes.io/name": "dbsnapshot", sdk.InstanceLabel: o.Name, OwnerLabel: o.Name}
}

func container(o *v1.DBSnapshot, s *Source, name, script string) corev1.Container {
	var resources corev1.ResourceRequirements
	if o.Spec.PgDump != nil {
		resources = *o.Spec.PgDump.Resources.DeepCopy()
	}
	return corev1.Container{
		Name: name, Image: s.Image, ImagePullPolicy: s.ImagePullPolicy, Resources: resources,
		Command: []string{"bash", scriptsPath + "/" + script},
		Env: []corev1.EnvVar{
			{Name: "SOCKETS", Value: socketsPath},
			{Name: "BACKUPS", Value: backupsPath},
		},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "scripts", MountPath: scriptsPath, ReadOnly: true},
			{Name: "backups", MountPath: backupsPath},
			{Name: "sockets", MountPath: socketsPath},
			{Name: "tmp", MountPath: "/tmp"},
		},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}

func job(o *v1.DBSnapshot, s *Source, scripts string, c corev1.Container) batchv1.JobSpec {
	more := s.Pod
	if more == nil {
		more = &v1.PodTemplate{}
	}
	labels := labels(o)
	labels[sdk.ManagedByLabel] = Manager // the operator watches pods with this label
	labels["app.kubernetes.io/component"] = c.Name
	empty := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	return batchv1.JobSpec{
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: maps.Clone(more.Annotations)},
			Spec: corev1.PodSpec{
				Containers: []corev1.Container{c}, RestartPolicy: corev1.RestartPolicyNever,
				Volumes: []corev1.Volume{
					{Name: "scripts", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
						LocalObjectReference: corev1.LocalObjectReference{Name: scripts},
					}}},
					{Name: "backups", VolumeSource: corev1.VolumeSource{
						PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: DumpClaimName(o)},
					}},
					{Name: "sockets", VolumeSource: empty},
					{Name: "tmp", VolumeSource: empty},
				},
				ImagePullSecrets:             slices.Clone(s.ImagePullSecrets),
				SecurityContext:              podsecurity.Context(more.SecurityContext),
				AutomountServiceAccountToken: new(false),
				EnableServiceLinks:           new(false),
				NodeSelector:                 maps.Clone(more.NodeSelector),
				Tolerations:                  slices.Clone(more.Tolerations),
				Affinity:                     more.Affinity.DeepCopy(),
				PriorityClassName:            more.PriorityClassName,
			},
		},
	}
}

// ScriptsOf returns the name of the ConfigMap that a Job mounts.
func ScriptsOf(job *batchv1.Job) string {
	for _, v := range job.Spec.Template.Spec.Volumes {
		if v.ConfigMap != nil {
			return v.ConfigMap.Name
		}
	}
	return ""
}

// ImageOf returns the image of a Job.
func ImageOf(job *batchv1.Job) string {
	for _, c := range job.Spec.Template.Spec.Containers {
		return c.Image
	}
	return ""
}
