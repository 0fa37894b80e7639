package policy

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

// The annotations of namespaces and sources that permit or deny copies. The values are comma-separated lists of
// namespaces, with * for any number of characters and ? for one.
const (
	// AllowFromAnnotation on a namespace or a source permits rules in those namespaces to read it.
	AllowFromAnnotation = "copyrator.flant.com/allow-from"
	// AcceptFromAnnotation on a namespace permits rules in those namespaces to copy to it, if the operator requires
	// consent.
	AcceptFromAnnotation = "copyrator.flant.com/accept-from"
	// DenyAnnotation on a namespace, with the value "true", forbids all copies.
	DenyAnnotation = "copyrator.flant.com/deny"
	// SourceAnnotation on a copy names its source, as "namespace/name".
	SourceAnnotation = "copyrator.flant.com/source"
)

// Settings are the operator's options that affect the meaning of rules.
type Settings struct {
	// Namespace is the operator's namespace: its rules may read every namespace and overwrite existing objects.
	Namespace string
	// Exclude are patterns of namespaces that a rule without targets does not copy to.
	Exclude []string
	// AllowSources are patterns of namespaces that every rule may read.
	AllowSources []string
	// Consent restricts rules outside of the operator's namespace to target namespaces that accept them.
	Consent bool
	// ManagedBy is the managed-by label of all copies.
	ManagedBy string
}

// Rule is a parsed, valid CopyratorRule.
type Rule struct {
	// Name and Namespace are those of the CopyratorRule.
	Name, Namespace string
	// Kind is ConfigMap or Secret.
	Kind string
	// Sources are the namespaces to read, without duplicates, in the order of the rule.
	Sources []string
	// Selector selects the sources in them, and excludes copies.
	Selector labels.Selector
	// Keys selects the copied entries of a source, and Labels the labels of its copies.
	Keys   v1.DataKeys
	Labels v1.Labels

	object   metav1.Object // for creation time and UID
	settings Settings
	targets  []string
	exclude  []string
	selector labels.Selector // nil for all namespaces
}

// Parse parses a rule. The error is for the author of the rule and has one sentence for each mistake.
func Parse(o *v1.CopyratorRule, settings Settings) (*Rule, error) {
	r := &Rule{
		Name: o.Name, Namespace: o.Namespace, Kind: "ConfigMap", object: o, settings: settings, targets: o.TargetNamespaces,
		exclude: o.ExcludeNamespaces, Keys: o.DataKeys, Labels: o.CopyLabels,
	}
	if strings.EqualFold(string(o.RuleType), "secret") {
		r.Kind = "Secret"
	}
	if len(r.targets) == 0 && o.TargetNamespaceSelector == nil {
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
	errs[3] = checkPatterns(slices.Concat(r.targets, r.exclude, r.Keys.Include, r.Keys.Exclude, r.Labels.Strip))
	errs[4] = checkLabels(r.Labels.Add)
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
	notACopy, err := labels.NewRequirement(ManagedByLabel, selection.NotEquals, []string{managedBy})
	if err != nil {
		return nil, fmt.Errorf("excluding copies: %w", err)
	}
	return selector.Add(*notACopy), nil
}

// ManagedByLabel is the label of all copies.
const ManagedByLabel = "app.kubernetes.io/managed-by"

func checkPatterns(all []string) error {
	for _, p := range all {
		if _, err := path.Match(p, ""); err != nil {
			return fmt.Errorf("%q is no pattern: use letters, digits, dashes, dots, * and ?", p)
		}
	}
	return nil
}

// checkLabels returns an error if a label of the copies is invalid, because the API server would reject every copy.
func checkLabels(labels map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		msgs := slices.Concat(validation.IsQualifiedName(key), validation.IsValidLabelValue(labels[key]))
		if len(msgs) > 0 {
			return fmt.Errorf("labels.add: %s=%q is no label: %s", key, labels[key], msgs[0])
		}
	}
	return nil
}

// Matches reports whether a name matches one of the patterns.
func Matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, _ := path.Match(p, name) // the rule's patterns are valid, and an invalid one in an annotation matches nothing
		return ok
	})
}

// Selects reports whether the rule selects an object of its kind as a source, permissions apart.
func (r *Rule) Selects(o metav1.Object) bool {
	return slices.Contains(r.Sources, o.GetNamespace()) && r.Selector.Matches(labels.Set(o.GetLabels())) && !IsCopy(o)
}

// IsCopy reports whether an object has any mark of a copy. All marks count, so that a copy does not become a source when
// it loses one.
func IsCopy(o metav1.Object) bool {
	controller := metav1.GetControllerOf(o)
	return o.GetLabels()[apply.OwnerUIDLabel] != "" || o.GetAnnotations()[apply.OwnerAnnotation] != "" ||
		controller != nil && controller.Kind == "CopyratorRule"
}

// Trusted reports whether the rule is in the operator's namespace.
func (r *Rule) Trusted() bool { return r.Namespace == r.settings.Namespace }

// MayRead reports whether the rule may read a whole namespace with these annotations.
func (r *Rule) MayRead(namespace string, annotations map[string]string) bool {
	return r.Trusted() || namespace == r.Namespace || Matches(r.settings.AllowSources, namespace) || r.Granted(annotations)
}

// Granted reports whether the annotations of a namespace or a source permit the rule to read it.
func (r *Rule) Granted(annotations map[string]string) bool {
	return Matches(splitList(annotations[AllowFromAnnotation]), r.Namespace)
}

func splitList(value string) []string {
	var items []string
	for item := range strings.SplitSeq(value, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// Reaches reports whether the rule copies to a namespace with this metadata.
func (r *Rule) Reaches(namespace *metav1.PartialObjectMetadata) bool {
	name, annotations := namespace.Name, namespace.Annotations
	switch {
	case namespace.DeletionTimestamp != nil, annotations[DenyAnnotation] == "true", Matches(r.exclude, name):
		return false
	case r.settings.Consent && !r.Trusted() && name != r.Namespace &&
		!Matches(splitList(annotations[AcceptFromAnnotation]), r.Namespace):
		return false
	case len(r.targets) > 0 && !Matches(r.targets, name):
		return false
	}
	return r.selector == nil || r.selector.Matches(labels.Set(namespace.Labels))
}

// NeedsLabels reports whether the targets depend on the labels of namespaces.
func (r *Rule) NeedsLabels() bool { return r.selector != nil }
