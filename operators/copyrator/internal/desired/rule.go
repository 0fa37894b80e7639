package desired

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation"

	v1 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v1"
	"github.com/homeostat-dev/homeostat/sdk/apply"
)

// The annotations by which namespaces and sources take part in who may copy what to where. Their values are lists of
// namespaces, separated by commas, in which * stands for any number of characters and ? for one.
const (
	// AllowFromAnnotation on a namespace, or on one source, lets rules in those namespaces read it.
	AllowFromAnnotation = "copyrator.flant.com/allow-from"
	// AcceptFromAnnotation on a namespace lets rules in those namespaces copy to it, if the operator asks for consent.
	AcceptFromAnnotation = "copyrator.flant.com/accept-from"
	// DenyAnnotation on a namespace, with the value "true", keeps all copies out.
	DenyAnnotation = "copyrator.flant.com/deny"
	// SourceAnnotation on a copy names its source, as "namespace/name".
	SourceAnnotation = "copyrator.flant.com/source"
)

// Settings are those of the operator that bear on what a rule means.
type Settings struct {
	// Namespace is the operator's: rules in it may read every namespace and write over what is there.
	Namespace string
	// Exclude are the namespaces that a rule which names no targets does not reach, with * and ?.
	Exclude []string
	// AllowSources are the namespaces that every rule may read, with * and ?.
	AllowSources []string
	// Consent keeps rules outside of the operator's namespace to those namespaces that accept them.
	Consent bool
	// ManagedBy is the value of the label managed-by of all copies.
	ManagedBy string
}

// Rule is a CopyratorRule that makes sense.
type Rule struct {
	// Name and Namespace are those of the CopyratorRule.
	Name, Namespace string
	// Kind is ConfigMap or Secret.
	Kind string
	// Sources are the namespaces to read, in the order in which the rule names them, each once.
	Sources []string
	// Selector selects the sources in them, and no copy.
	Selector labels.Selector

	made     metav1.Object // when, and by which UID
	settings Settings
	include  []string
	exclude  []string
	selector labels.Selector // nil if all namespaces are meant
	keys     v1.DataKeys
	labels   v1.Labels
}

// Read makes sense of a rule. The error is for its author: one sentence for each thing that is wrong.
func Read(o *v1.CopyratorRule, settings Settings) (*Rule, error) {
	r := &Rule{
		Name: o.Name, Namespace: o.Namespace, Kind: "ConfigMap", made: o, settings: settings, include: o.TargetNamespaces,
		exclude: o.ExcludeNamespaces, keys: o.DataKeys, labels: o.CopyLabels,
	}
	if strings.EqualFold(string(o.RuleType), "secret") {
		r.Kind = "Secret"
	}
	if len(r.include) == 0 && o.TargetNamespaceSelector == nil {
		r.exclude = slices.Concat(r.exclude, settings.Exclude)
	}
	var errs [5]error
	r.Sources, errs[0] = sources(o)
	r.Selector, errs[1] = sourceSelector(o.Selector, settings.ManagedBy)
	if o.TargetNamespaceSelector != nil {
		if r.selector, errs[2] = metav1.LabelSelectorAsSelector(o.TargetNamespaceSelector); errs[2] != nil {
			errs[2] = fmt.Errorf("targetNamespaceSelector: %w", errs[2])
		}
	}
	errs[3] = patterns(slices.Concat(r.include, r.exclude, r.keys.Include, r.keys.Exclude, r.labels.Strip))
	errs[4] = added(r.labels.Add)
	return r, errors.Join(errs[:]...)
}

func sources(o *v1.CopyratorRule) ([]string, error) {
	if o.SourceNamespace.Malformed != nil {
		return nil, fmt.Errorf("namespace is %s: write the name of a namespace, or a list of names", o.SourceNamespace.Malformed)
	}
	var names []string
	for _, name := range slices.Concat(o.SourceNamespace.List, o.Namespaces) {
		if msgs := validation.IsDNS1123Label(name); len(msgs) > 0 {
			return nil, fmt.Errorf("namespace %q cannot exist: correct its name", name)
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		names = []string{o.Namespace}
	}
	return names, nil
}

func sourceSelector(s v1.Selector, managedBy string) (labels.Selector, error) {
	var selector labels.Selector
	var err error
	switch {
	case s.Malformed != nil:
		return nil, fmt.Errorf("selector is %s: write a map of labels, or a text such as copyrator=true", s.Malformed)
	case s.Labels != nil:
		selector, err = labels.ValidatedSelectorFromSet(s.Labels)
	default:
		selector, err = labels.Parse(s.Text)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("selector: %w", err)
	case selector.Empty():
		return nil, errors.New("selector is empty and would copy everything: name at least one label")
	}
	notACopy, err := labels.NewRequirement(managedByLabel, selection.NotEquals, []string{managedBy})
	if err != nil {
		return nil, fmt.Errorf("excluding copies: %w", err)
	}
	return selector.Add(*notACopy), nil
}

const managedByLabel = "app.kubernetes.io/managed-by"

func patterns(all []string) error {
	for _, p := range all {
		if _, err := path.Match(p, ""); err != nil {
			return fmt.Errorf("%q is no pattern: use letters, digits, dashes, dots, * and ?", p)
		}
	}
	return nil
}

// added returns what is wrong with the labels that copies get, which each of them would be refused for.
func added(labels map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		msgs := slices.Concat(validation.IsQualifiedName(key), validation.IsValidLabelValue(labels[key]))
		if len(msgs) > 0 {
			return fmt.Errorf("labels.add: %s=%q is no label: %s", key, labels[key], msgs[0])
		}
	}
	return nil
}

// matches reports whether a name is among the patterns.
func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, _ := path.Match(p, name) // the patterns were checked, and one of an annotation that is none matches nothing
		return ok
	})
}

// Selects reports whether an object of the rule's kind is one that the rule would copy, if it may.
func (r *Rule) Selects(o metav1.Object) bool {
	return slices.Contains(r.Sources, o.GetNamespace()) && r.Selector.Matches(labels.Set(o.GetLabels())) && !IsCopy(o)
}

// IsCopy reports whether an object says that a rule made it, by any mark, so that no copy becomes a source by losing one.
func IsCopy(o metav1.Object) bool {
	controller := metav1.GetControllerOf(o)
	return o.GetLabels()[apply.OwnerUIDLabel] != "" || o.GetAnnotations()[apply.OwnerAnnotation] != "" ||
		controller != nil && controller.Kind == "CopyratorRule"
}

// Trusted reports whether the rule is one of the operator's own namespace.
func (r *Rule) Trusted() bool { return r.Namespace == r.settings.Namespace }

// MayRead reports whether the rule may read all of a namespace with these annotations.
func (r *Rule) MayRead(namespace string, annotations map[string]string) bool {
	return r.Trusted() || namespace == r.Namespace || matches(r.settings.AllowSources, namespace) || r.Granted(annotations)
}

// Granted reports whether the annotations of a namespace or of a source let the rule read it.
func (r *Rule) Granted(annotations map[string]string) bool {
	return matches(list(annotations[AllowFromAnnotation]), r.Namespace)
}

func list(value string) []string {
	var items []string
	for item := range strings.SplitSeq(value, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// Reaches reports whether a namespace with this metadata gets copies.
func (r *Rule) Reaches(namespace *metav1.PartialObjectMetadata) bool {
	name, annotations := namespace.Name, namespace.Annotations
	switch {
	case namespace.DeletionTimestamp != nil, annotations[DenyAnnotation] == "true", matches(r.exclude, name):
		return false
	case r.settings.Consent && !r.Trusted() && name != r.Namespace &&
		!matches(list(annotations[AcceptFromAnnotation]), r.Namespace):
		return false
	case len(r.include) > 0 && !matches(r.include, name):
		return false
	}
	return r.selector == nil || r.selector.Matches(labels.Set(namespace.Labels))
}

// NeedsLabels reports whether the labels of namespaces decide which the rule reaches.
func (r *Rule) NeedsLabels() bool { return r.selector != nil }
