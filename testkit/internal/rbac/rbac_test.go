package rbac_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/testkit/internal/manifest"
	"github.com/homeostat-dev/homeostat/testkit/internal/rbac"
)

const files = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: op, namespace: system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: op}
rules:
  - {apiGroups: ["", example.com], resources: [pods, nodes, nodes/status, things], verbs: [get]}
  - {apiGroups: ["*"], resources: ["*"], verbs: [list]}
  - {nonResourceURLs: [/metrics], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: election, namespace: system}
rules:
  - {apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [op], verbs: [update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: op}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: op}
subjects: [{kind: ServiceAccount, name: op, namespace: system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: viewer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: ServiceAccount, name: op, namespace: system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: election, namespace: system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: election}
subjects: [{kind: ServiceAccount, name: op, namespace: system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: people}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: op}
subjects: [{kind: User, name: alice, apiGroup: rbac.authorization.k8s.io}]
`

func parse(t *testing.T, text string) *rbac.Policy {
	t.Helper()
	objects, err := manifest.Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	p, err := rbac.Parse(objects)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// mapper knows pods and nodes.
func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	m.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	return m
}

// describe lists the granted permissions, one line per object.
func describe(t *testing.T, p *rbac.Policy, clusterWide bool) []string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", UID: "uid"}}
	objects, err := p.Objects("op", ns, mapper(), clusterWide)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, object := range objects {
		kind := strings.TrimPrefix(fmt.Sprintf("%T", object), "*v1.")
		line := fmt.Sprintf("%s %s/%s", kind, object.GetNamespace(), object.GetName())
		switch o := object.(type) {
		case *rbacv1.Role:
			line += ":" + rules(o.Rules)
		case *rbacv1.ClusterRole:
			line += ":" + rules(o.Rules)
		case *rbacv1.RoleBinding:
			line += fmt.Sprintf(": %s %s to %s/%s", o.RoleRef.Kind, o.RoleRef.Name, o.Subjects[0].Namespace, o.Subjects[0].Name)
		case *rbacv1.ClusterRoleBinding:
			line += fmt.Sprintf(": %s %s to %s/%s", o.RoleRef.Kind, o.RoleRef.Name, o.Subjects[0].Namespace, o.Subjects[0].Name)
		}
		if object.GetNamespace() == "" && object.GetOwnerReferences()[0].UID != "uid" {
			line += " (unowned)"
		}
		lines = append(lines, line)
	}
	return lines
}

func rules(list []rbacv1.PolicyRule) string {
	var b strings.Builder
	for _, r := range list {
		fmt.Fprintf(&b, " %s %s%s%s;", strings.Join(r.Verbs, ","), strings.Join(r.Resources, ","),
			strings.Join(r.ResourceNames, ","), strings.Join(r.NonResourceURLs, ","))
	}
	return b.String()
}

func TestObjects(t *testing.T) {
	t.Parallel()
	p := parse(t, files)
	within := []string{
		"ServiceAccount ns/op",
		"Role ns/op: get pods; get things; get pods; get nodes; get nodes/status; get things; list *;",
		"RoleBinding ns/op: Role op to ns/op",
		"ClusterRole /ns-op: get nodes; get nodes/status; get /metrics;",
		"ClusterRoleBinding /ns-op: ClusterRole ns-op to ns/op",
		"RoleBinding ns/viewer: ClusterRole view to ns/op",
		"Role ns/election: update leasesop;",
		"RoleBinding ns/election: Role election to ns/op",
	}
	if diff := cmp.Diff(within, describe(t, p, false)); diff != "" {
		t.Errorf("within a namespace (-want +got):\n%s", diff)
	}
	everywhere := []string{
		"ServiceAccount ns/op",
		"ClusterRole /ns-op: get pods,nodes,nodes/status,things; list *; get /metrics;",
		"ClusterRoleBinding /ns-op: ClusterRole ns-op to ns/op",
		"ClusterRoleBinding /ns-viewer: ClusterRole view to ns/op",
		"Role ns/election: update leasesop;",
		"RoleBinding ns/election: Role election to ns/op",
	}
	if diff := cmp.Diff(everywhere, describe(t, p, true)); diff != "" {
		t.Errorf("everywhere (-want +got):\n%s", diff)
	}
}

func TestAccount(t *testing.T) {
	t.Parallel()
	one := parse(t, files)
	two := parse(t, files+"---\n{apiVersion: v1, kind: ServiceAccount, metadata: {name: other}}")
	tests := map[string]struct {
		reason  string
		policy  *rbac.Policy
		name    string
		want    string
		wantErr string
	}{
		"Only":      {"there is no choice", one, "", "op", ""},
		"Named":     {"it is one of them", two, "other", "other", ""},
		"Ambiguous": {"there is a choice", two, "", "", `finding ServiceAccount "": the files have op, other`},
		"Unknown":   {"a typing mistake", two, "oops", "", `finding ServiceAccount "oops"`},
		"None":      {"not an operator's files", parse(t, ""), "", "", "the files have none"},
	}
	for name, tt := range tests {
		got, err := tt.policy.ServiceAccountName(tt.name)
		if got != tt.want || tt.wantErr == "" && err != nil ||
			tt.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tt.wantErr)) {
			t.Errorf("%s: %q, %v; want %q, %q, because %s", name, got, err, tt.want, tt.wantErr, tt.reason)
		}
	}
}

func TestUnknownRole(t *testing.T) {
	t.Parallel()
	p := parse(t, strings.ReplaceAll(files, "kind: Role, name: election", "kind: Role, name: oops"))
	_, err := p.Objects("op", &corev1.Namespace{}, mapper(), false)
	if err == nil || !strings.Contains(err.Error(), "resolving election: the files have no Role oops") {
		t.Errorf("%v", err)
	}
}

func TestMisspelledRule(t *testing.T) {
	t.Parallel()
	objects, err := manifest.Decode([]byte(strings.ReplaceAll(files, "verbs: [update]", "verb: [update]")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rbac.Parse(objects); err == nil || !strings.Contains(err.Error(), `reading Role election`) {
		t.Errorf("%v", err)
	}
}
