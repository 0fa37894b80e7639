package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation"

	v2 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v2"
	"github.com/homeostat-dev/homeostat/operators/copyrator/internal/versions"
)

// Settings are the operator's options that affect the meaning of rules.
type Settings struct {
	// Namespace is the operator's namespace: its rules are trusted. They may read every namespace, overwrite existing objects
	// and need no consent. No other rule copies to it.
	Namespace string
	// Exclude are the namespaces that no rule copies to, in addition to kube-*.
	Exclude Patterns
	// AllowSources are the namespaces that every rule may read.
	AllowSources Patterns
	// WaiveConsent permits rules outside of the operator's namespace to copy to namespaces that did not accept them.
	WaiveConsent bool
	// ManagedBy is the managed-by label of all copies.
	ManagedBy string
}

// excluded reports whether no rule copies to the namespace.
func (s *Settings) excluded(namespace string) bool {
	return strings.HasPrefix(namespace, "kube-") || s.Exclude.Match(namespace)
}

// Rule is a parsed, valid CopyratorRule. It is safe for concurrent use.
type Rule struct {
	// Name and Namespace are those of the CopyratorRule.
	Name, Namespace string
	// Kind is ConfigMap or Secret.
	Kind string
	// Spec is the specification. It is read-only.
	Spec *v2.Spec
	// Sources are the namespaces to read, without duplicates, in the order of the rule.
	Sources []string
	// Selector selects the sources in them, and excludes copies.
	Selector labels.Selector

	object   metav1.Object // for creation time and UID
	settings *Settings
	targets  Patterns
	exclude  Patterns
	selector labels.Selector // nil for all namespaces
	include  Patterns        // of keys; none means all
	omit     Patterns        // of keys
	strip    Patterns        // of labels
	add      map[string]string

	mu             sync.Mutex
	reached        []bool // by namespace, of that version
	reachedVersion uint64
}

// Parse parses a rule. The error is for the author of the rule and has one sentence for each mistake.
func Parse(o *v2.CopyratorRule, settings *Settings) (*Rule, error) {
	spec := &o.Spec
	r := &Rule{
		Name: o.Name, Namespace: o.Namespace, Kind: string(spec.Source.Kind), Spec: spec, Sources: sources(o),
		object: o, settings: settings, add: spec.Labels.Add,
	}
	var errs []error
	try := func(err error) { errs = append(errs, err) }
	try(versions.ParseNamespaces(r.Sources))
	var err error
	r.Selector, err = sourceSelector(&spec.Source.Selector, settings.ManagedBy)
	try(err)
	if s := spec.Targets.NamespaceSelector; s != nil {
		const field = "spec.targets.namespaceSelector or, in v1, targetNamespaceSelector"
		if max(len(s.MatchLabels), len(s.MatchExpressions)) > maxTargetLabels {
			try(fmt.Errorf("%s has more than %d labels or expressions: use fewer", field, maxTargetLabels))
		}
		if r.selector, err = metav1.LabelSelectorAsSelector(s); err != nil {
			try(fmt.Errorf("%s: %w", field, err))
		}
	}
	for _, list := range []struct {
		texts []string
		into  *Patterns
	}{
		{spec.Targets.Namespaces, &r.targets},
		{spec.Targets.ExcludeNamespaces, &r.exclude},
		{spec.DataKeys.Include, &r.include},
		{spec.DataKeys.Exclude, &r.omit},
		{spec.Labels.Strip, &r.strip},
	} {
		*list.into, err = ParsePatterns(list.texts)
		try(err)
	}
	try(r.checkLabels())
	return r, errors.Join(errs...)
}

// maxTargetLabels limits a field without a limit in the schema.
const maxTargetLabels = 32

// sources returns the source namespaces of a rule.
func sources(o *v2.CopyratorRule) []string {
	if len(o.Spec.Source.Namespaces) == 0 {
		return []string{o.Namespace}
	}
	return o.Spec.Source.Namespaces
}

func sourceSelector(s *metav1.LabelSelector, managedBy string) (labels.Selector, error) {
	selector, err := versions.ParseSelector(s)
	if err != nil {
		return nil, err
	}
	notACopy, err := labels.NewRequirement(ManagedByLabel, selection.NotEquals, []string{managedBy})
	if err != nil {
		return nil, fmt.Errorf("excluding copies: %w", err)
	}
	return selector.Add(*notACopy), nil
}

// checkLabels returns an error if a label of the copies is invalid, because the API server would reject every copy, or if it
// is not permitted: other controllers act on labels, with the permissions of the copy's namespace.
func (r *Rule) checkLabels() error {
	for _, key := range slices.Sorted(maps.Keys(r.add)) {
		msgs := slices.Concat(validation.IsQualifiedName(key), validation.IsValidLabelValue(r.add[key]))
		switch {
		case len(msgs) > 0:
			return fmt.Errorf("labels.add: %s=%q is no label: %s", key, r.add[key], msgs[0])
		case isReserved(key):
			return fmt.Errorf("labels.add: %s has a meaning for Copyrator: use another key", key)
		case !r.mayLabel(key):
			return fmt.Errorf("labels.add: a rule outside of namespace %s may not add %s to copies: use a key that begins with %s",
				r.settings.Namespace, key, LabelPrefix)
		}
	}
	return nil
}

// mayLabel reports whether copies of the rule may have that label.
func (r *Rule) mayLabel(key string) bool {
	return !isReserved(key) && (r.Trusted() || strings.HasPrefix(key, LabelPrefix))
}

// CopyLabels returns the labels of the copies of a source with these labels. The result is never nil.
func (r *Rule) CopyLabels(source map[string]string) map[string]string {
	all := map[string]string{}
	for key, value := range source {
		if r.mayLabel(key) && !r.strip.Match(key) {
			all[key] = value
		}
	}
	maps.Copy(all, r.add)
	return all
}

// CopiesKey reports whether the rule copies the entry of a source with that key.
func (r *Rule) CopiesKey(key string) bool {
	return (len(r.include) == 0 || r.include.Match(key)) && !r.omit.Match(key)
}

// Selects reports whether the rule selects an object of its kind as a source, permissions apart.
func (r *Rule) Selects(o metav1.Object) bool {
	return slices.Contains(r.Sources, o.GetNamespace()) && r.Selector.Matches(labels.Set(o.GetLabels())) && !IsCopy(o)
}

// Trusted reports whether the rule is in the operator's namespace.
func (r *Rule) Trusted() bool { return r.Namespace == r.settings.Namespace }

// MayRead reports whether the rule may read a whole namespace with these annotations.
func (r *Rule) MayRead(namespace string, annotations map[string]string) bool {
	return r.Trusted() || namespace == r.Namespace || r.settings.AllowSources.Match(namespace) || r.Granted(annotations)
}

// Granted reports whether the annotations of a namespace or a source permit the rule to read it.
func (r *Rule) Granted(annotations map[string]string) bool {
	return parseList(annotations[AllowFromAnnotation]).Match(r.Namespace)
}

// Reaches reports whether the rule copies to a namespace with this metadata. [Rule.Targets] has the result for many.
func (r *Rule) Reaches(namespace *metav1.PartialObjectMetadata) bool {
	name := namespace.Name
	switch {
	case namespace.DeletionTimestamp != nil, denies(namespace.Annotations), r.settings.excluded(name), r.exclude.Match(name):
		return false
	case !r.Trusted() && name != r.Namespace && !r.accepted(namespace):
		return false
	case len(r.targets) > 0 && !r.targets.Match(name):
		return false
	}
	return r.selector == nil || r.selector.Matches(labels.Set(namespace.Labels))
}

// accepted reports whether another namespace accepts copies of the rule.
func (r *Rule) accepted(namespace *metav1.PartialObjectMetadata) bool {
	if namespace.Name == r.settings.Namespace {
		return false
	}
	return r.settings.WaiveConsent || parseList(namespace.Annotations[AcceptFromAnnotation]).Match(r.Namespace)
}

// denies reports whether a namespace with these annotations denies all copies. An unknown value denies.
func denies(annotations map[string]string) bool {
	value := annotations[DenyAnnotation]
	return value != "" && value != "false"
}

// NeedsLabels reports whether the targets depend on the labels of namespaces.
func (r *Rule) NeedsLabels() bool { return r.selector != nil }
