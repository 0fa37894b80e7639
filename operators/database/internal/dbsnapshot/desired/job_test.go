package desired_test

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/dbsnapshot/desired"
)

func key(name, key string) corev1.SecretKeySelector {
	return corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key}
}

func variables(job *batchv1.Job) map[string]string {
	all := map[string]string{}
	for _, e := range job.Spec.Template.Spec.Containers[0].Env {
		all[e.Name] = e.Value
	}
	return all
}

// The programs of the Job verify the server as the source says, and never send the password in clear text.
func TestServerIsVerified(t *testing.T) {
	t.Parallel()
	o := &v1.DBSnapshot{}
	o.Name = "a"
	ca := key("authorities", "bundle.pem")
	source := &desired.Source{Engine: v1.PostgreSQL, SSLMode: "verify-full", CA: &ca, Password: key("login", "password")}
	job := desired.DumpJob(o, source, "scripts", "a-1")
	got := variables(job)
	for name, want := range map[string]string{
		"PGSSLMODE": "verify-full", "PGSSLROOTCERT": "/etc/database/ca/ca.crt", "PGREQUIREAUTH": "scram-sha-256",
		"PGGSSENCMODE": "disable",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	expectAuthorities(t, job, ca)
	got = variables(desired.DumpJob(o, &desired.Source{Engine: v1.PostgreSQL}, "scripts", "a-1"))
	if got["PGREQUIREAUTH"] != "scram-sha-256" || got["PGSSLROOTCERT"] != "" {
		t.Errorf("without verification the variables are %v", got)
	}
	if got := variables(desired.DumpJob(o, &desired.Source{Engine: v1.MariaDB}, "scripts", "a-1")); got["PGREQUIREAUTH"] != "" {
		t.Errorf("MariaDB has the variables %v", got)
	}
}

// expectAuthorities checks that the container has the authorities of the Secret.
func expectAuthorities(t *testing.T, job *batchv1.Job, ca corev1.SecretKeySelector) {
	t.Helper()
	mounted := false
	for _, mount := range job.Spec.Template.Spec.Containers[0].VolumeMounts {
		mounted = mounted || mount.Name == "ca" && mount.MountPath == "/etc/database/ca" && mount.ReadOnly
	}
	found := false
	for _, v := range job.Spec.Template.Spec.Volumes {
		found = found || v.Name == "ca" && v.Secret != nil && v.Secret.SecretName == ca.Name &&
			len(v.Secret.Items) == 1 && v.Secret.Items[0] == corev1.KeyToPath{Key: ca.Key, Path: "ca.crt"}
	}
	if !mounted || !found {
		t.Errorf("the authorities are mounted: %v, from the Secret: %v", mounted, found)
	}
}
