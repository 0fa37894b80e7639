package sandbox

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// secrets is a client of one Secret, which may be absent.
type secrets struct {
	client.Client
	data map[string][]byte
}

func (s *secrets) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	if s.data == nil || key != (client.ObjectKey{Namespace: "mail", Name: "mailbox-cert"}) {
		return apierrors.NewNotFound(corev1.Resource("secrets"), key.Name)
	}
	o.(*corev1.Secret).Data = s.data // only Secrets are read
	return nil
}

// The files of a certificate follow the Secret that the container mounts where OLM mounts it.
func TestCertificate(t *testing.T) {
	t.Parallel()
	cluster := &secrets{}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "mail", Name: "mailbox"},
		Spec: corev1.PodSpec{
			Volumes: []corev1.Volume{{Name: "other"}, {Name: "cert", VolumeSource: corev1.VolumeSource{
				Secret: &corev1.SecretVolumeSource{SecretName: "mailbox-cert", Items: []corev1.KeyToPath{
					{Key: "certificate", Path: "tls.crt"}, {Key: "key", Path: "tls.key"},
				}},
			}}},
			Containers: []corev1.Container{{VolumeMounts: []corev1.VolumeMount{
				{Name: "other", MountPath: "/tmp"}, {Name: "cert", MountPath: mountedCertDir},
			}}},
		},
	}
	e := newPodProcess(&PodRunner{client: cluster, dir: t.TempDir()}, pod, &pod.Spec.Containers[0])
	source := e.certificateSecret()
	if source == nil || source.SecretName != "mailbox-cert" {
		t.Fatalf("the Secret is %v", source)
	}
	_, err := e.writeCertificate(t.Context(), source)
	if err == nil || !strings.Contains(err.Error(), `"mailbox-cert" not found`) {
		t.Errorf("without the Secret: %v", err)
	}
	for _, certificate := range []string{"first", "second"} {
		cluster.data = map[string][]byte{"certificate": []byte(certificate), "key": []byte("private"), "ca": []byte("unused")}
		dir, err := e.writeCertificate(t.Context(), source)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		files, err := os.ReadDir(dir)
		for _, file := range files {
			data, _ := os.ReadFile(filepath.Join(dir, file.Name()))
			got[file.Name()] = string(data)
		}
		if diff := cmp.Diff(map[string]string{"tls.crt": certificate, "tls.key": "private"}, got); diff != "" || err != nil {
			t.Errorf("%v, -want +got:\n%s", err, diff)
		}
	}
	pod.Spec.Containers[0].VolumeMounts[1].MountPath = "/certificates"
	if other := e.certificateSecret(); other != nil {
		t.Errorf("a Secret in another folder is the certificate: %v", other)
	}
}
