package desired

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/homeostat-dev/homeostat/sdk/internal/observed"
)

// TestCrossNamespaceChildren checks that a child is cross-namespace only if an owner reference is not possible.
func TestCrossNamespaceChildren(t *testing.T) {
	t.Parallel()
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	kinds := &observed.Kinds{Scheme: scheme.Scheme, Mapper: mapper}
	there := metav1.ObjectMeta{Namespace: "there"}
	for name, test := range map[string]struct {
		home           string
		child          metav1.ObjectMeta
		node           bool
		want           string
		crossNamespace bool
	}{
		"in its parent's namespace":                  {home: "here", want: "here"},
		"in another namespace":                       {home: "here", child: there, want: "there", crossNamespace: true},
		"cluster-scoped":                             {home: "here", node: true, crossNamespace: true},
		"of a cluster-scoped parent":                 {child: there, want: "there"},
		"cluster-scoped, of a cluster-scoped parent": {node: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := &Child{Desired: &corev1.ConfigMap{ObjectMeta: test.child}}
			if test.node {
				st.Desired = &corev1.Node{ObjectMeta: test.child}
			}
			if err := identify(kinds, st, test.home); err != nil {
				t.Fatal(err)
			}
			if st.Key.Namespace != test.want || st.CrossNamespace != test.crossNamespace {
				t.Errorf("namespace %q and cross-namespace %t, want %q and %t",
					st.Key.Namespace, st.CrossNamespace, test.want, test.crossNamespace)
			}
		})
	}
}
