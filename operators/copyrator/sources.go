package copyrator

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/copyrator/internal/policy"
	"github.com/homeostat-dev/homeostat/sdk"
)

// keptAnnotations limits the memory of the watches: a user who may write a ConfigMap can write 256 KiB of annotations.
var keptAnnotations = sdk.KeepAnnotations(policy.Annotations()...)

// namespaces returns the metadata of all namespaces, and the copies that they refuse. If the operator is restricted to some
// namespaces, only their names are known.
func namespaces(p *pass) (*policy.Namespaces, error) {
	refusing := client.HasLabels{policy.RefuseLabel}
	if len(p.Namespaces) == 0 {
		all, err := sdk.Find(p, metadataOf("Namespace"), keptAnnotations)
		if err != nil {
			return nil, err
		}
		refusals, err := sdk.Find(p, metadataOf("ConfigMap"), refusing, keptAnnotations)
		return policy.NewNamespaces(all, refusals), err
	}
	var all, refusals []*metav1.PartialObjectMetadata
	for _, name := range slices.Sorted(slices.Values(p.Namespaces)) {
		n := metadataOf("Namespace")
		n.Name = name
		all = append(all, n)
		found, err := sdk.Find(p, metadataOf("ConfigMap"), client.InNamespace(name), refusing, keptAnnotations)
		if err != nil {
			return nil, err
		}
		refusals = append(refusals, found...)
	}
	return policy.NewNamespaces(all, refusals), nil
}

// metadataOf returns an empty metadata object of a kind in the core group.
func metadataOf(kind string) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return o
}

// foundSources are the sources of a rule, and the named namespaces that it must not read.
type foundSources struct {
	policy.RuleSources

	// unreadable does not depend on the content of these namespaces, nor on their existence, so that it discloses nothing.
	unreadable []string
}

// findSources returns the sources of a rule. A namespace is watched only if the rule may read all of it. The objects that
// other namespaces share with some rules have a label, and all rules use the same watch of them.
func (c *copyrator) findSources(p *pass, rule *policy.Rule, n *policy.Namespaces) (found foundSources, err error) {
	found.Rule = rule
	shared := sharedObjects{pass: p, kind: rule.Kind}
	for _, name := range rule.Sources {
		namespace := n.Get(name)
		var all []*metav1.PartialObjectMetadata
		switch {
		case namespace == nil && rule.MayRead(name, nil) && len(p.Namespaces) == 0:
			continue // the namespace may be created later
		case namespace == nil:
		case rule.MayRead(name, namespace.Annotations):
			if all, err = sdk.Find(p, metadataOf(rule.Kind), client.InNamespace(name),
				client.MatchingLabelsSelector{Selector: rule.Selector}, sdk.SharedWatch(), keptAnnotations); err != nil {
				return found, err
			}
			found.add(all)
			continue
		default:
			if all, err = shared.in(name); err != nil {
				return found, err
			}
			all = slices.DeleteFunc(all, func(o *metav1.PartialObjectMetadata) bool {
				return !rule.Selects(o) || !rule.Granted(o.Annotations)
			})
		}
		if len(all) == 0 {
			found.unreadable = append(found.unreadable, name)
		}
		found.add(all)
	}
	return found, nil
}

// add adds the objects that can be copied.
func (f *foundSources) add(all []*metav1.PartialObjectMetadata) {
	for _, o := range all {
		if o.DeletionTimestamp == nil && !isPublished(o.Name) && !policy.IsCopy(o) {
			f.Sources = append(f.Sources, o)
		}
	}
}

// isPublished reports whether a controller publishes an object of that name in every namespace: Kubernetes and OpenShift
// have such ConfigMaps.
func isPublished(name string) bool {
	return name == "kube-root-ca.crt" || name == "openshift-service-ca.crt"
}

// sharedObjects are the objects with the label of shared ones.
type sharedObjects struct {
	pass *pass
	kind string
	all  []*metav1.PartialObjectMetadata
	read bool
}

// in returns the shared objects in a namespace.
func (s *sharedObjects) in(namespace string) (found []*metav1.PartialObjectMetadata, err error) {
	if len(s.pass.Namespaces) > 0 {
		return s.find(client.InNamespace(namespace))
	}
	if !s.read {
		if s.all, err = s.find(); err != nil {
			return nil, err
		}
		s.read = true
	}
	for _, o := range s.all {
		if o.Namespace == namespace {
			found = append(found, o)
		}
	}
	return found, nil
}

func (s *sharedObjects) find(opts ...client.ListOption) ([]*metav1.PartialObjectMetadata, error) {
	return sdk.Find(s.pass, metadataOf(s.kind), append(opts, client.HasLabels{policy.SharedLabel}, keptAnnotations)...)
}
