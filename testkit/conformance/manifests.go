package conformance

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// manifests are the rendered objects of an overlay.
type manifests struct {
	overlay    Overlay
	objects    []unstructured.Unstructured
	crds       []*apiextensionsv1.CustomResourceDefinition
	deployment *appsv1.Deployment // the operator's
}

// newManifests finds the operator's Deployment: there must be exactly one.
func newManifests(overlay Overlay, objects []unstructured.Unstructured) (*manifests, error) {
	m := &manifests{overlay: overlay, objects: objects}
	for i := range objects {
		switch objects[i].GetKind() {
		case "CustomResourceDefinition":
			crd := &apiextensionsv1.CustomResourceDefinition{}
			if err := convert(&objects[i], crd); err != nil {
				return nil, err
			}
			m.crds = append(m.crds, crd)
		case "Deployment":
			if m.deployment != nil {
				return nil, fmt.Errorf("overlay %s has several Deployments", overlay.Dir)
			}
			m.deployment = &appsv1.Deployment{}
			if err := convert(&objects[i], m.deployment); err != nil {
				return nil, err
			}
		}
	}
	switch {
	case m.deployment == nil:
		return nil, fmt.Errorf("overlay %s has no Deployment", overlay.Dir)
	case m.namespace() == "" || m.account() == "" || len(m.deployment.Spec.Template.Spec.Containers) == 0:
		return nil, errors.New("the Deployment of overlay " + overlay.Dir +
			" needs a namespace, a serviceAccountName and a container")
	}
	return m, nil
}

func convert(o *unstructured.Unstructured, into any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, into); err != nil {
		return fmt.Errorf("reading %s: %w", describe(o), err)
	}
	return nil
}

func describe(o *unstructured.Unstructured) string { return o.GetKind() + " " + o.GetName() }

// namespace returns the operator's namespace.
func (m *manifests) namespace() string { return m.deployment.Namespace }

// account returns the name of the operator's ServiceAccount.
func (m *manifests) account() string { return m.deployment.Spec.Template.Spec.ServiceAccountName }

// target returns the namespace for custom resources: a watched one, or "" for any.
func (m *manifests) target() string {
	for _, namespace := range m.overlay.WatchNamespaces {
		if namespace != m.namespace() {
			return namespace
		}
	}
	return ""
}

// clusterScoped are core resources that a Role cannot grant access to.
var clusterScoped = []string{"namespaces", "nodes", "persistentvolumes"}

func leastPrivilege(o *Operator, m *manifests) []finding {
	var found []finding
	for i := range m.objects {
		object := &m.objects[i]
		if object.GetKind() != "Role" && object.GetKind() != "ClusterRole" {
			continue
		}
		role := &rbacv1.ClusterRole{} // a Role has the same fields
		if err := convert(object, role); err != nil {
			found = append(found, finding{describe(object), err.Error()})
			continue
		}
		for _, rule := range role.Rules {
			secrets := o.AllowSecrets || m.overlay.AllowSecrets || m.ownSecrets(rule)
			if mistake := mistakeOf(rule, object.GetKind(), secrets); mistake != "" {
				found = append(found, finding{describe(object), mistake})
			}
		}
	}
	return found
}

// mistakeOf returns the mistake in a rule of a role, or "".
func mistakeOf(rule rbacv1.PolicyRule, kind string, secrets bool) string {
	all := slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs, rule.NonResourceURLs)
	switch {
	case slices.Contains(all, "*"):
		return fmt.Sprintf("the rule %v has a wildcard", rule)
	case slices.Contains(rule.Resources, "secrets") && !secrets:
		return fmt.Sprintf("the rule %v is about Secrets, which Operator.AllowSecrets and Overlay.AllowSecrets permit", rule)
	case kind == "Role" && slices.ContainsFunc(rule.Resources, func(resource string) bool {
		return slices.Contains(clusterScoped, resource)
	}):
		return fmt.Sprintf("a Role cannot grant the rule %v, which is about cluster-scoped objects", rule)
	default:
		return ""
	}
}

func namespacedScope(_ *Operator, m *manifests) []finding {
	if len(m.overlay.WatchNamespaces) == 0 {
		return nil
	}
	var found []finding
	for i := range m.objects {
		object := &m.objects[i]
		switch object.GetKind() {
		case "ClusterRole", "ClusterRoleBinding":
			found = append(found, finding{describe(object), "it is cluster-wide"})
		case "ConfigMap":
			found = append(found, finding{describe(object), "it is an input of kustomize and must not be installed"})
		case "Role", "RoleBinding":
			want := m.namespace()
			if object.GetName() == m.account() {
				want = m.target()
			}
			if got := object.GetNamespace(); got != want {
				found = append(found, finding{describe(object), fmt.Sprintf("it is in namespace %q, want %q", got, want)})
			}
		}
	}
	arguments := m.deployment.Spec.Template.Spec.Containers[0].Args
	if want := "--watch-namespaces=" + strings.Join(m.overlay.WatchNamespaces, ","); !slices.Contains(arguments, want) {
		found = append(found, finding{"Deployment " + m.deployment.Name, fmt.Sprintf("its arguments %q lack %s", arguments, want)})
	}
	return found
}

// defaultElectionID is the name of the Lease unless a role has a name.
const defaultElectionID = "conformance.homeostat.dev"

// electionID returns the name of the Lease for leader election, which the roles usually restrict.
func (m *manifests) electionID(o *Operator) string {
	if o.LeaderElectionID != "" {
		return o.LeaderElectionID
	}
	for i := range m.objects {
		role := &rbacv1.ClusterRole{}
		if kind := m.objects[i].GetKind(); kind != "Role" && kind != "ClusterRole" || convert(&m.objects[i], role) != nil {
			continue
		}
		for _, rule := range role.Rules {
			if slices.Contains(rule.Resources, "leases") && len(rule.ResourceNames) > 0 {
				return rule.ResourceNames[0]
			}
		}
	}
	return defaultElectionID
}
