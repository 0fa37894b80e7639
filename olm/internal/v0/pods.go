package v0

import (
	"fmt"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/tools/images/oci"
)

// Names of the images of OLM's pods.
const (
	olmImage = "homeostat/olm:v0"
	opmImage = "homeostat/opm:v0"
)

// user is the user of OLM's pods, as in OLM's own images.
const user = 1001

// Images returns the images of OLM's pods by name. programs is a folder of [Build]. base is an image with cp, such as
// busybox: the pods of catalogs and bundles copy programs with it.
func Images(programs string, base v1.Image) (map[string]v1.Image, error) {
	images := map[string]v1.Image{}
	for name, contents := range map[string]map[string]string{ // files in the image, by program
		olmImage: {"olm": "olm", "catalog": "catalog", "copy-content": "copy-content", "cpb": "cpb"},
		opmImage: {"opm": "opm", "grpc-health-probe": "grpc_health_probe"},
	} {
		var files []oci.File
		for program, file := range contents {
			data, err := os.ReadFile(filepath.Join(programs, program))
			if err != nil {
				return nil, fmt.Errorf("making image %s: %w", name, err)
			}
			// In the base, /bin is a link to usr/bin.
			files = append(files, oci.File{Name: "usr/bin/" + file, Mode: 0o755, Data: data})
		}
		layer, err := oci.UncompressedLayer(files...)
		if err == nil {
			images[name], err = mutate.AppendLayers(base, layer)
		}
		if err != nil {
			return nil, fmt.Errorf("making image %s: %w", name, err)
		}
	}
	return images, nil
}

// Pods returns OLM as pods, for real nodes that have its [Images]: the Deployments of OLM's chart, with an account that may
// do everything. There are no probes, because the programs of [Build] listen on the loopback interface. [Objects] must be in
// the cluster.
func Pods() []client.Object {
	const name, account = "olm-operator", "olm-operator-serviceaccount"
	binding := metav1.ObjectMeta{Name: "olm-operator-binding-" + Namespace}
	return []client.Object{
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: account}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: binding,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: Namespace, Name: account}},
		},
		deployment(name, account, "/bin/olm", "--namespace="+Namespace),
		deployment("catalog-operator", account, "/bin/catalog", "--namespace="+Namespace, "--util-image="+olmImage,
			"--opmImage="+opmImage, "--set-workload-user-id=true"),
	}
}

func deployment(name, account string, command ...string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					ServiceAccountName: account,
					SecurityContext: &corev1.PodSecurityContext{
						RunAsNonRoot: new(true), RunAsUser: new(int64(user)),
						SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
					},
					Volumes: []corev1.Volume{{
						Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
					}},
					Containers: []corev1.Container{{
						Name: name, Image: olmImage, Command: command,
						Env: []corev1.EnvVar{
							{Name: "OPERATOR_NAMESPACE", Value: Namespace}, {Name: "OPERATOR_NAME", Value: name},
						},
						VolumeMounts: []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}},
						SecurityContext: &corev1.SecurityContext{
							AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
							Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
						},
					}},
				},
			},
		},
	}
}
