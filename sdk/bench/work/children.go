package work

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StatefulSet returns the first child.
func StatefulSet(d *Database) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: meta(d, d.Name+"-db"),
		Spec: appsv1.StatefulSetSpec{
			Replicas:    new(max(d.Spec.Replicas, 1)),
			ServiceName: d.Name + "-db",
			Selector:    &metav1.LabelSelector{MatchLabels: selector(d)},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: selector(d)},
				Spec: corev1.PodSpec{
					Containers: []corev1.Container{{
						Name:  "postgres",
						Image: "postgres:" + d.Spec.Version,
						Ports: []corev1.ContainerPort{{Name: "postgres", ContainerPort: port}},
						Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
							corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("256Mi"),
						}},
						VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/var/lib/postgresql/data"}},
					}},
					Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
						PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: d.Name + "-data"},
					}}},
				},
			},
		},
	}
}

// Service returns the second child.
func Service(d *Database) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: meta(d, d.Name+"-db"),
		Spec: corev1.ServiceSpec{
			Selector: selector(d),
			Ports:    []corev1.ServicePort{{Name: "postgres", Port: port}},
		},
	}
}

// Claim returns the third child.
func Claim(d *Database) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: meta(d, d.Name+"-data"),
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceStorage: resource.MustParse(d.Spec.Storage),
			}},
		},
	}
}

// Backup returns the fourth child.
func Backup(d *Database) *batchv1.CronJob {
	return &batchv1.CronJob{
		ObjectMeta: meta(d, d.Name+"-backup"),
		Spec: batchv1.CronJobSpec{
			Schedule: "0 2 * * *",
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyOnFailure,
					Containers: []corev1.Container{{
						Name: "dump", Image: "postgres:" + d.Spec.Version, Command: []string{"pg_dump", "--host", d.Name + "-db"},
					}},
				},
			}}},
		},
	}
}

const port = 5432

func selector(d *Database) map[string]string { return map[string]string{"database": d.Name} }

func meta(d *Database, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: d.Namespace, Name: name, Labels: selector(d)}
}
