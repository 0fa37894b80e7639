package desired

import (
	"encoding/json"
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/adoption"
)

// Annotations of the StatefulSet. A new version of the operator compares them to keep the pods unchanged.
const (
	// inputsAnnotation is the digest of all fields of the spec that the pods depend on.
	inputsAnnotation = "techoral.com/inputs"
	// templateAnnotation is the pod template that the operator built from these inputs.
	templateAnnotation = "techoral.com/pod-template"
	// PendingTemplateAnnotation is the digest of the template of a new version of the operator, while it waits for its turn.
	PendingTemplateAnnotation = "techoral.com/pending-pod-template"
	// TemplateTurnAnnotation is the digest of the template that may be rolled out now, or is being rolled out.
	TemplateTurnAnnotation = "techoral.com/pod-template-turn"
)

// PinnedTemplate is the last written pod template with its inputs, by any version of the operator. It is stored in the
// ConfigMap, too, because the StatefulSet may have to be recreated around its pods.
type PinnedTemplate struct {
	Template    corev1.PodTemplateSpec
	Annotations map[string]string // annotations of the object that stores it; nil if there is none
}

// ReadPinned reads the template from the StatefulSet, and while there is none, from the ConfigMap. A user who may write
// ConfigMaps but not pods must not choose the template, so that of the ConfigMap counts only if it has the trusted digest,
// as [PinnedTemplate.Digest] returned it earlier.
func ReadPinned(set *appsv1.StatefulSet, settings *corev1.ConfigMap, trusted string) PinnedTemplate {
	if p := readPinned(set); p.Annotations != nil {
		return p
	}
	if p := readPinned(settings); p.Digest() == trusted {
		return p
	}
	return PinnedTemplate{}
}

func readPinned(o client.Object) (p PinnedTemplate) {
	inputs, raw := o.GetAnnotations()[inputsAnnotation], o.GetAnnotations()[templateAnnotation]
	if json.Unmarshal([]byte(raw), &p.Template) != nil || len(p.Template.Spec.Containers) == 0 {
		return PinnedTemplate{}
	}
	p.Annotations = map[string]string{inputsAnnotation: inputs, templateAnnotation: raw}
	return p
}

// Digest returns the SHA-256 hash of the template and its inputs in hexadecimal; "" if there is no template.
func (p *PinnedTemplate) Digest() string {
	if p.Annotations == nil {
		return ""
	}
	return fullDigest(p.Annotations[inputsAnnotation], p.Annotations[templateAnnotation])
}

// Annotations with which other operators leave the pods alone. They would restart the members for each change of a ConfigMap
// or Secret, also for the keys that a running member reads, and for a new password, which needs no restart.
const (
	rolloutAnnotation  = "rollout.homeostat.dev/enabled"
	reloaderAnnotation = "reloader.stakater.com/auto"
)

// StatefulSet returns the StatefulSet of the members. The pod template stays pinned while its inputs are unchanged. A new
// version of the operator would build another template from the same inputs; it is used with the next change of the inputs,
// or if upgrade is true. The size is that of the claim template.
func StatefulSet(db *v1.Database, pin PinnedTemplate, fresh corev1.PodTemplateSpec, size resource.Quantity, upgrade bool,
) (*appsv1.StatefulSet, error) {
	template, inputs := fresh, inputs(db)
	if !upgrade && pin.Annotations != nil && pin.Annotations[inputsAnnotation] == inputs {
		template = pin.Template
	}
	raw, err := json.Marshal(template)
	if err != nil {
		return nil, fmt.Errorf("encoding the pod template: %w", err)
	}
	replicas := db.Members()
	if db.Spec.Hibernate {
		replicas = 0
	}
	claim := claimTemplate(db, size)
	// The operator adopts the claims that the StatefulSet controller creates in its absence.
	claim.Annotations = map[string]string{adoption.Annotation: db.Name}
	strategy := appsv1.RollingUpdateStatefulSetStrategyType // updates from the highest ordinal down, so the primary is last
	if db.Spec.UpgradePolicy == v1.UpgradeOnDelete && !closed(db) {
		strategy = appsv1.OnDeleteStatefulSetStrategyType
	}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: SetName(db), Labels: labels(db),
			Annotations: map[string]string{
				inputsAnnotation: inputs, templateAnnotation: string(raw), rolloutAnnotation: "false", reloaderAnnotation: "false",
			},
		},
		Spec: appsv1.StatefulSetSpec{
			ServiceName: HeadlessServiceName(db), Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: Selector(db)}, Template: template,
			PodManagementPolicy:  appsv1.ParallelPodManagement, // a failing member does not block the others
			UpdateStrategy:       appsv1.StatefulSetUpdateStrategy{Type: strategy},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{claim},
		},
	}, nil
}

// Stopped returns the StatefulSet without members.
func Stopped(live *appsv1.StatefulSet) *appsv1.StatefulSet {
	stopped := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: live.Name, Labels: live.Labels}, Spec: *live.Spec.DeepCopy(),
	}
	stopped.Spec.Replicas = new(int32(0))
	return stopped
}

// Adopter returns a StatefulSet without members. It adopts the pods of a StatefulSet that is gone, and so ends them.
func Adopter(db *v1.Database) *appsv1.StatefulSet {
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: podLabels(db, ServerComponent)}}
	template.Spec.Containers = []corev1.Container{{Name: "none", Image: "none"}} // one is required
	maps.Copy(template.Labels, Selector(db))
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: SetName(db), Labels: labels(db)},
		Spec: appsv1.StatefulSetSpec{
			ServiceName: HeadlessServiceName(db), Replicas: new(int32(0)), Template: template,
			Selector:            &metav1.LabelSelector{MatchLabels: Selector(db)},
			PodManagementPolicy: appsv1.ParallelPodManagement,
		},
	}
}

// TemplateDigest returns a digest of the pod template.
func TemplateDigest(set *appsv1.StatefulSet) string {
	if reduced := set.Annotations[templateDigestAnnotation]; reduced != "" {
		return reduced
	}
	return digest(set.Annotations[templateAnnotation])
}

// templateDigestAnnotation is in the result of [ReduceForUpgrade] only.
const templateDigestAnnotation = "techoral.com/pod-template-digest"

// ReduceForUpgrade returns the fields of a StatefulSet that the order of upgrades depends on, without the template.
func ReduceForUpgrade(set *appsv1.StatefulSet) *appsv1.StatefulSet {
	reduced := &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: set.Spec.Replicas}, Status: set.Status}
	reduced.Namespace = set.Namespace
	reduced.Name = set.Name
	reduced.UID = set.UID
	reduced.ResourceVersion = set.ResourceVersion
	reduced.Generation = set.Generation
	reduced.DeletionTimestamp = set.DeletionTimestamp
	reduced.OwnerReferences = set.OwnerReferences
	reduced.Labels = set.Labels
	reduced.Annotations = map[string]string{templateDigestAnnotation: TemplateDigest(set)}
	for _, name := range []string{PendingTemplateAnnotation, TemplateTurnAnnotation} {
		if value := set.Annotations[name]; value != "" {
			reduced.Annotations[name] = value
		}
	}
	return reduced
}

// SamePods reports whether two StatefulSets have the same pod template.
func SamePods(a, b *appsv1.StatefulSet) bool {
	return a.Annotations[templateAnnotation] == b.Annotations[templateAnnotation]
}

// inputs returns a digest of the fields of the spec that the pods depend on.
func inputs(db *v1.Database) string {
	s := &db.Spec
	raw, err := json.Marshal(v1.DatabaseSpec{
		Engine: s.Engine, Version: s.Version, Image: s.Image, ImagePullPolicy: s.ImagePullPolicy,
		ImagePullSecrets: s.ImagePullSecrets, Resources: s.Resources, DatabaseName: s.DatabaseName, Username: s.Username,
		CredentialsSecretRef: s.CredentialsSecretRef, Configuration: s.Configuration, PodTemplate: s.PodTemplate,
	})
	if err != nil {
		panic(err) // unreachable: the value was decoded from JSON
	}
	if closed(db) {
		return digest(string(raw), "closed")
	}
	return digest(string(raw))
}

// DataClaim returns the claim of a member. Its labels let a successor of the same name check that it can read the data.
func DataClaim(db *v1.Database, member int, size resource.Quantity) *corev1.PersistentVolumeClaim {
	claim := claimTemplate(db, size)
	claim.Name = ClaimName(db, member)
	claim.Labels = withProtectionLabel(db, claim.Labels)
	if member > 0 {
		return &claim
	}
	if db.Spec.DeletionPolicy == v1.DeletionSnapshot { // they have the only data until the last dump exists
		claim.Labels[ProtectedLabel] = "true"
	}
	if db.Spec.BootstrapFrom != nil {
		claim.Annotations = map[string]string{SourceAnnotation: BootstrapDigest(db)}
		if db.Status.Restored != "" {
			claim.Annotations[RestoredAnnotation] = db.Status.Restored
		}
	}
	return &claim
}

// BootstrapDigest returns a digest of spec.bootstrapFrom, which must not be nil.
func BootstrapDigest(db *v1.Database) string {
	raw, err := json.Marshal(db.Spec.BootstrapFrom)
	if err != nil {
		panic(err) // unreachable: the value was decoded from JSON
	}
	return digest(string(raw))
}

// claimTemplate returns the template of the members' claims. Claims have no owner reference: after a restore from a backup
// their owner would be missing, and garbage collection would delete the data.
func claimTemplate(db *v1.Database, size resource.Quantity) corev1.PersistentVolumeClaim {
	return corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: DataVolume, Labels: mergeLabels(labels(db), podLabels(db, "data"), dataLabels(db))},
		Spec:       claimSpec(size, db.Spec.StorageClassName),
	}
}

// dataLabels returns the labels that describe the data in a claim.
func dataLabels(db *v1.Database) map[string]string {
	return map[string]string{EngineLabel: string(db.Spec.Engine), MajorLabel: Major(db.Spec.Version)}
}

func claimSpec(size resource.Quantity, class *string) corev1.PersistentVolumeClaimSpec {
	return corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: class,
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: size}},
	}
}

// CanReadData reports whether the data in the claim of a predecessor are readable by this Database.
func CanReadData(db *v1.Database, labels map[string]string) bool {
	want := dataLabels(db)
	return labels[EngineLabel] == want[EngineLabel] && labels[MajorLabel] == want[MajorLabel]
}

// BackupClaim returns the claim of the dumps.
func BackupClaim(db *v1.Database, size resource.Quantity) *corev1.PersistentVolumeClaim {
	class := db.Spec.Backup.Storage.StorageClassName
	if class == nil {
		class = db.Spec.StorageClassName
	}
	all := mergeLabels(labels(db), podLabels(db, "backups"))
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: BackupName(db), Labels: withProtectionLabel(db, all)},
		Spec:       claimSpec(size, class),
	}
}
