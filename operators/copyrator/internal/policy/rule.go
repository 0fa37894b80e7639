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

	v1 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v1"
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
func Parse(o *v1.CopyratorRule, settings *Settings) (*Rule, error) {
	r := &Rule{Name: o.Name, Namespace: o.Namespace, Kind: "ConfigMap", object: o, settings: settings, add: o.CopyLabels.Add}
	if strings.EqualFold(string(o.RuleType), "secret") {
		r.Kind = "Secret"
	}
	var errs []error
	try := func(err error) { errs = append(errs, err) }
	var err error
	r.Sources, err = sources(o)
	try(err)
	r.Selector, err = sourceSelector(o.Selector, settings.ManagedBy)
	try(err)
	if s := o.TargetNamespaceSelector; s != nil {
		if max(len(s.MatchLabels), len(s.MatchExpressions)) > maxSelectorLabels {
			try(fmt.Errorf("targetNamespaceSelector has more than %d labels or expressions: use fewer", maxSelectorLabels))
		}
		if r.selector, err = metav1.LabelSelectorAsSelector(s); err != nil {
			try(fmt.Errorf("targetNamespaceSelector: %w", err))
		}
	}
	for _, list := range []struct {
		texts []string
		into  *Patterns
	}{
		{o.TargetNamespaces, &r.targets},
		{o.ExcludeNamespaces, &r.exclude},
		{o.DataKeys.Include, &r.include},
		{o.DataKeys.Exclude, &r.omit},
		{o.CopyLabels.Strip, &r.strip},
	} {
		*list.into, err = ParsePatterns(list.texts)
		try(err)
	}
	try(r.checkLabels())
	return r, errors.Join(errs...)
}

func sources(o *v1.CopyratorRule) ([]string, error) {
	if o.SourceNamespace.Malformed != nil {
		return nil, fmt.Errorf("namespace is %s: write the name of a namespace, or a list of names", o.SourceNamespace.Malformed)
	}
	if len(o.SourceNamespace.List) > maxSourceNamespaces { // the schema limits the other list
		return nil, fmt.Errorf("namespace has more than %d names: name fewer", maxSourceNamespaces)
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
	case len(s.Malformed) > maxSelector || len(s.Text) > maxSelector || len(s.Labels) > maxSelectorLabels:
		return nil, fmt.Errorf("selector is longer than %d characters or %d labels: shorten it", maxSelector, maxSelectorLabels)
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

// The limits of fields without a schema.
const (
	maxSelector         = 4096
	maxSelectorLabels   = 32
	maxSourceNamespaces = 64
)

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
