package desired

import (
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/podsecurity"
)

// Containers and volumes of the pods.
const (
	Container     = "db"   // server
	InitContainer = "init" // creates the data directory
	DumpContainer = "dump"

	DataVolume        = "data"
	configVolume      = "config"
	begunVolume       = "begun"
	scriptsVolume     = "scripts"
	credentialsVolume = "credentials"
	socketsVolume     = "sockets"
	tmpVolume         = "tmp"
	memoryVolume      = "shared-memory"
	backupsVolume     = "backups"
)

// Mount paths. The data directory is never the root of a volume, because that may contain lost+found. No path is declared as
// a volume by an image.
const (
	dataPath        = "/var/lib/database"
	dataDirectory   = dataPath + "/data"
	scriptsPath     = "/etc/database/scripts"
	configPath      = "/etc/database/config"
	begunPath       = "/etc/database/state"
	credentialsPath = "/etc/database/credentials" //nolint:gosec // it is the path of the credentials.
	socketsPath     = "/run/database"
	backupsPath     = "/backups"
)

// Template returns the pod template of the members.
func Template(db *v1.Database, image, scripts string) corev1.PodTemplateSpec {
	more := db.Spec.PodTemplate
	if more == nil {
		more = &v1.PodTemplate{}
	}
	grace := more.TerminationGracePeriodSeconds
	if grace == nil {
		grace = new(int64(300))
	}
	server := member(db, image, Container, "run.sh")
	server.Ports = []corev1.ContainerPort{{Name: portName, ContainerPort: Port(db.Spec.Engine)}}
	server.StartupProbe = probe("startup", 1, 3600) // 1 hour, because replaying a long log must not be interrupted
	server.LivenessProbe = probe("live", 10, 6)
	server.ReadinessProbe = probe("ready", 5, 3)
	if db.Spec.Engine == v1.PostgreSQL { // on the termination signal it would wait for all clients
		server.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{
			Command: []string{
				"pg_ctl", "stop", "--pgdata=" + dataDirectory, "--mode=fast", "--timeout=" + strconv.FormatInt(*grace, 10),
			},
		}}}
	}
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels: mergeLabels(podLabels(db, ServerComponent), Selector(db)), Annotations: maps.Clone(more.Annotations),
		},
		Spec: corev1.PodSpec{
			InitContainers:                []corev1.Container{member(db, image, InitContainer, "init.sh")},
			Containers:                    []corev1.Container{server},
			Volumes:                       memberVolumes(db, scripts),
			ImagePullSecrets:              db.Spec.ImagePullSecrets,
			SecurityContext:               podsecurity.Context(more.SecurityContext),
			AutomountServiceAccountToken:  new(false),
			EnableServiceLinks:            new(false),
			TerminationGracePeriodSeconds: grace,
			NodeSelector:                  maps.Clone(more.NodeSelector),
			Tolerations:                   more.Tolerations,
			Affinity:                      affinity(db, more.Affinity),
			TopologySpreadConstraints:     more.TopologySpreadConstraints,
			PriorityClassName:             more.PriorityClassName,
		},
	}
}

func member(db *v1.Database, image, name, script string) corev1.Container {
	c := container(db, image, name, script)
	c.Resources = *db.Spec.Resources.DeepCopy()
	c.Env = append(c.Env,
		corev1.EnvVar{Name: dataVariable(db.Spec.Engine), Value: dataDirectory},
		corev1.EnvVar{Name: "MEMBER", ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['apps.kubernetes.io/pod-index']"},
		}},
		corev1.EnvVar{Name: "PRIMARY_HOST", Value: SetName(db) + "." + db.Namespace + ".svc"},
		corev1.EnvVar{Name: "PRIMARY_PORT", Value: strconv.Itoa(int(Port(db.Spec.Engine)))},
		corev1.EnvVar{Name: "CONFIG", Value: configPath},
		corev1.EnvVar{Name: "BEGUN", Value: begunPath + "/" + HasDataKey},
		corev1.EnvVar{Name: "RECOVER_FROM", Value: begunPath + "/" + RecoverFromKey})
	if closed(db) {
		c.Env = append(c.Env, corev1.EnvVar{Name: "CLOSED", Value: "true"})
	}
	c.VolumeMounts = append(c.VolumeMounts,
		corev1.VolumeMount{Name: DataVolume, MountPath: dataPath},
		corev1.VolumeMount{Name: configVolume, MountPath: configPath, ReadOnly: true},
		corev1.VolumeMount{Name: begunVolume, MountPath: begunPath, ReadOnly: true})
	if db.Spec.Engine == v1.PostgreSQL { // the runtime's default is 64 MiB
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: memoryVolume, MountPath: "/dev/shm"})
	}
	return c
}

// container returns the common part of the containers of members and dumps.
func container(db *v1.Database, image, name, script string) corev1.Container {
	return corev1.Container{
		Name: name, Image: image, ImagePullPolicy: db.Spec.ImagePullPolicy,
		Command: []string{"bash", scriptsPath + "/" + script},
		Env: []corev1.EnvVar{
			{Name: "DATABASE", Value: db.Spec.DatabaseName},
			{Name: "DATABASE_USER", Value: db.Spec.Username},
			{Name: "CREDENTIALS", Value: credentialsPath},
			{Name: "SOCKETS", Value: socketsPath},
		},
		VolumeMounts: []corev1.VolumeMount{
			{Name: scriptsVolume, MountPath: scriptsPath, ReadOnly: true},
			{Name: credentialsVolume, MountPath: credentialsPath, ReadOnly: true},
			{Name: socketsVolume, MountPath: socketsPath},
			{Name: tmpVolume, MountPath: "/tmp"},
		},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}

// closed reports whether the server accepts nothing but the last dump, because the Database is being deleted with its data.
func closed(db *v1.Database) bool {
	return db.DeletionTimestamp != nil && db.Spec.DeletionPolicy == v1.DeletionSnapshot
}

// IsClosed reports whether a member's pod accepts nothing but the last dump.
func IsClosed(pod *corev1.PodSpec) bool {
	return slices.ContainsFunc(pod.Containers, func(c corev1.Container) bool {
		return c.Name == Container && slices.Contains(c.Env, corev1.EnvVar{Name: "CLOSED", Value: "true"})
	})
}

func dataVariable(engine v1.Engine) string {
	if engine == v1.PostgreSQL {
		return "PGDATA"
	}
	return "DATADIR"
}

func memberVolumes(db *v1.Database, scripts string) []corev1.Volume {
	own := []corev1.KeyToPath{
		{Key: DumpPasswordKey, Path: DumpPasswordKey},
		{Key: replicationPasswordKey, Path: replicationPasswordKey},
	}
	volumes := []corev1.Volume{
		{Name: configVolume, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: ConfigName(db)},
			Items:                []corev1.KeyToPath{{Key: settingsKey(db), Path: settingsKey(db)}},
		}}},
		{Name: begunVolume, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: ConfigName(db)}, Optional: new(true),
			Items: []corev1.KeyToPath{{Key: HasDataKey, Path: HasDataKey}, {Key: RecoverFromKey, Path: RecoverFromKey}},
		}}},
	}
	volumes = append(volumes, volumesOf(db, scripts, own)...)
	if db.Spec.Engine == v1.PostgreSQL {
		volumes = append(volumes, corev1.Volume{Name: memoryVolume, VolumeSource: corev1.VolumeSource{
			EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory},
		}})
	}
	return volumes
}

// volumesOf returns the volumes that members and dumps share. The owner's password is mounted from the user's Secret if
// there is one, and the items in own from the operator's.
func volumesOf(db *v1.Database, scripts string, own []corev1.KeyToPath) []corev1.Volume {
	secret := func(name string, items ...corev1.KeyToPath) corev1.VolumeProjection {
		return corev1.VolumeProjection{Secret: &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: name}, Items: items,
		}}
	}
	sources := []corev1.VolumeProjection{secret(SecretName(db), corev1.KeyToPath{Key: PasswordKey, Path: PasswordKey})}
	if len(own) > 0 {
		sources = append(sources, secret(CredentialsName(db), own...))
	}
	empty := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	return []corev1.Volume{
		{Name: scriptsVolume, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: scripts},
		}}},
		{Name: credentialsVolume, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: sources, DefaultMode: new(int32(0o440)),
		}}},
		{Name: socketsVolume, VolumeSource: empty},
		{Name: tmpVolume, VolumeSource: empty},
	}
}

// affinity prefers nodes without another member.
func affinity(db *v1.Database, given *corev1.Affinity) *corev1.Affinity {
	if given != nil {
		return given.DeepCopy()
	}
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
			Weight: 100,
			PodAffinityTerm: corev1.PodAffinityTerm{
				TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: Selector(db)},
			},
		}},
	}}
}

func probe(what string, period, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{
			Command: []string{"bash", scriptsPath + "/probe.sh", what},
		}},
		PeriodSeconds: period, FailureThreshold: failures, TimeoutSeconds: 5,
	}
}

func mergeLabels(parts ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, part := range parts {
		maps.Copy(all, part)
	}
	return all
}
