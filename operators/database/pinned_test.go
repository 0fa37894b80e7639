package database_test

import (
	"context"
	"encoding/json"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit"
)

// configMapEditor returns the client of a user who may write the ConfigMaps of the test's namespace, and nothing else.
func configMapEditor(t *testing.T, k *testkit.K) client.Client {
	t.Helper()
	k.Apply(&rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "eve"},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "create", "update", "patch"},
		}},
	})
	k.Apply(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "eve"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "eve"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "eve"}},
	})
	cfg := rest.CopyConfig(k.Config)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: "eve"}
	eve, err := client.New(cfg, client.Options{Scheme: k.Client.Scheme(), Mapper: k.Client.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	k.Wait("eve has her role", func(ctx context.Context) error {
		probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: "probe"}}
		return eve.Create(ctx, probe, client.DryRunAll)
	})
	return eve
}

// A user who may write ConfigMaps, but not pods, does not choose the pod template of a StatefulSet that is created again.
func TestPodTemplateOfConfigMapIsNotTrusted(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(k)
	db := newDatabase("a")
	k.Apply(db)
	k.Eventually(db, testkit.Ready())
	waitIdle(k, op)
	op.Stop()

	members := set("a-db")
	k.Get(members)
	k.Delete(members, client.PropagationPolicy(metav1.DeletePropagationOrphan))
	k.Eventually(members, testkit.Gone())
	eve := configMapEditor(t, k)
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: "a-db-config"}}
	if err := eve.Get(t.Context(), client.ObjectKeyFromObject(config), config); err != nil {
		t.Fatal(err)
	}
	var template corev1.PodTemplateSpec
	const annotation = "techoral.com/pod-template"
	if err := json.Unmarshal([]byte(config.Annotations[annotation]), &template); err != nil {
		t.Fatal(err)
	}
	template.Spec.ServiceAccountName = "admin"
	template.Spec.Volumes = append(template.Spec.Volumes, corev1.Volume{Name: "host", VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: "/"},
	}})
	raw, err := json.Marshal(template)
	if err != nil {
		t.Fatal(err)
	}
	config.Annotations[annotation] = string(raw)
	if err := eve.Update(t.Context(), config, client.FieldOwner("database")); err != nil {
		t.Fatal(err)
	}

	start(k)
	k.Eventually(members, testkit.Ready(), testkit.Match("the template of the operator", func(s *appsv1.StatefulSet) bool {
		return s.Spec.Template.Spec.ServiceAccountName == "" &&
			len(s.Spec.Template.Spec.Volumes) == len(template.Spec.Volumes)-1
	}))
}
