package apply

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestOwnershipErrorNamesTheFix checks the text for an existing object: it names the owner, does not say that the object
// belongs to the very owner of the intent, and advises nothing that Kubernetes cannot do.
func TestOwnershipErrorNamesTheFix(t *testing.T) {
	t.Parallel()
	owner := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "now"}}
	controlled := func(apiVersion, kind, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{
			APIVersion: apiVersion, Kind: kind, Name: name, UID: "then", Controller: new(true),
		}}}
	}
	labeled := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Labels: map[string]string{OwnerUIDLabel: "then"}, Annotations: map[string]string{OwnerAnnotation: name},
		}
	}
	for name, c := range map[string]struct {
		live metav1.ObjectMeta
		want string
	}{
		"no owner":           {metav1.ObjectMeta{}, "has no owner"},
		"another name":       {controlled("v1", "Pod", "db"), "belongs to Pod db"},
		"another kind":       {controlled("apps/v1", "Deployment", "web"), "belongs to Deployment web"},
		"another group":      {controlled("example.com/v1", "Pod", "web"), "belongs to Pod web"},
		"a former owner":     {controlled("v1", "Pod", "web"), "belongs to a former Pod web"},
		"a labeled owner":    {labeled("shop/db"), "belongs to shop/db"},
		"a former one there": {labeled("shop/web"), "belongs to a former shop/web"},
	} {
		for form, by := range map[string]Option{"controlled": ControlledBy(owner), "labeled": LabeledBy(owner)} {
			t.Run(name+"/"+form, func(t *testing.T) {
				t.Parallel()
				i := intentOf(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "conf"}}, by)
				live := &corev1.ConfigMap{ObjectMeta: c.live}
				live.Namespace = "shop"
				want := "ConfigMap shop/conf exists and " + c.want + ": delete it, or use another name"
				if err := i.CheckOwnership(live); err == nil || err.Error() != want {
					t.Errorf("got  %v\nwant %s", err, want)
				}
			})
		}
	}
}
