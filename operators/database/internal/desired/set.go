package desired

import (
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
)

// The annotations of the StatefulSet by which a new version of the operator knows what it must not change.
const (
	// inputsAnnotation is the digest of all that the pods depend on and that users write.
	inputsAnnotation = "techoral.com/inputs"
	// templateAnnotation is the pod template that was made of them, as the operator wrote it then.
	templateAnnotation = "techoral.com/pod-template"
)

// Pin is the pod template that the operator wrote last, whichever version it was, and what that was made of. It outlives the
// StatefulSet, which may have to be made anew around its pods.
type Pin struct {
	Template    corev1.PodTemplateSpec
	Annotations map[string]string // of what keeps it; nil if there is none
}

// PinOf reads it from the first of the objects that has one.
func PinOf(objects ...client.Object) Pin {
	for _, o := range objects {
		var p Pin
		inputs, raw := o.GetAnnotations()[inputsAnnotation], o.GetAnnotations()[templateAnnotation]
		if json.Unmarshal([]byte(raw), &p.Template) == nil && len(p.Template.Spec.Containers) > 0 {
			p.Annotations = map[string]string{inputsAnnotation: inputs, templateAnnotation: raw}
			return p
		}
	}
	return Pin{}
}

// Set returns the StatefulSet of the members. The pods stay as they are as long as nothing changed that users write: another
// version of the operator, which would make other pods of the same, changes them with the next thing that does, or if it is
// told to upgrade. Their volumes are as large as the claim says.
func Set(db *v1.Database, pin Pin, fresh corev1.PodTemplateSpec, size resource.Quantity, upgrade bool,
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
	if db.Spec.DeletionPolicy != v1.DeletionRetain {
		claim.OwnerReferences = endsWith(db)
	}
	strategy := appsv1.RollingUpdateStatefulSetStrategyType // from the highest ordinal down: the primary is the last
	if db.Spec.UpgradePolicy == v1.UpgradeOnDelete {
		strategy = appsv1.OnDeleteStatefulSetStrategyType
	}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: SetName(db), Labels: labels(db),
			Annotations: map[string]string{inputsAnnotation: inputs, templateAnnotation: string(raw)},
		},
		Spec: appsv1.StatefulSetSpec{
			ServiceName: HeadlessServiceName(db), Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: Selector(db)}, Template: template,
			PodManagementPolicy:  appsv1.ParallelPodManagement, // a member that does not come up keeps no other from it
			UpdateStrategy:       appsv1.StatefulSetUpdateStrategy{Type: strategy},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{claim},
		},
	}, nil
}

// SamePods reports whether both StatefulSets make the same pods.
func SamePods(a, b *appsv1.StatefulSet) bool {
	return a.Annotations[templateAnnotation] == b.Annotations[templateAnnotation]
}

// inputs is a digest of what of the specification the pods are made of.
func inputs(db *v1.Database) string {
	s := &db.Spec
	raw, err := json.Marshal(v1.DatabaseSpec{
		Engine: s.Engine, Version: s.Version, Image: s.Image, ImagePullPolicy: s.ImagePullPolicy,
		ImagePullSecrets: s.ImagePullSecrets, Resources: s.Resources, DatabaseName: s.DatabaseName, Username: s.Username,
		CredentialsSecretRef: s.CredentialsSecretRef, Configuration: s.Configuration, PodTemplate: s.PodTemplate,
	})
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	return digest(string(raw))
}

// Data returns the claim of a member. It has the labels by which a later Database of that name knows that it can read it.
func Data(db *v1.Database, member int, size resource.Quantity) *corev1.PersistentVolumeClaim {
	claim := claimTemplate(db, size)
	claim.Name, claim.Labels = ClaimName(db, member), protected(db, claim.Labels)
	if member == 0 && db.Status.Restored != "" {
		claim.Annotations = map[string]string{RestoredAnnotation: db.Status.Restored}
	}
	return &claim
}

// endsWith lets go of a claim with the Database. The operator sees to that for those that it makes, but a StatefulSet makes
// one for each that it misses, even if the Database and the StatefulSet itself are gone and it has not heard of it yet. It
// does not block the deletion of the Database, which the controller of StatefulSets may have no right to.
func endsWith(db *v1.Database) []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: v1.GroupVersion.String(), Kind: "Database", Name: db.Name, UID: db.UID, Controller: new(true),
	}}
}

func claimTemplate(db *v1.Database, size resource.Quantity) corev1.PersistentVolumeClaim {
	return corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: DataVolume, Labels: with(labels(db), podLabels(db, "data"), contents(db))},
		Spec:       claimSpec(size, db.Spec.StorageClassName),
	}
}

// contents says what data a claim has.
func contents(db *v1.Database) map[string]string {
	return map[string]string{EngineLabel: string(db.Spec.Engine), MajorLabel: Major(db.Spec.Version)}
}

func claimSpec(size resource.Quantity, class *string) corev1.PersistentVolumeClaimSpec {
	return corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: class,
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: size}},
	}
}

// Readable reports whether a claim that a former Database left holds data that this one can read.
func Readable(db *v1.Database, labels map[string]string) bool {
	want := contents(db)
	return labels[EngineLabel] == want[EngineLabel] && labels[MajorLabel] == want[MajorLabel]
}

// Backups returns the claim of the dumps.
func Backups(db *v1.Database, size resource.Quantity) *corev1.PersistentVolumeClaim {
	class := db.Spec.Backup.Storage.StorageClassName
	if class == nil {
		class = db.Spec.StorageClassName
	}
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: BackupName(db), Labels: protected(db, with(labels(db), podLabels(db, "backups")))},
		Spec:       claimSpec(size, class),
	}
}
