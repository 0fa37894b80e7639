package copyrator

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	v1 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v1"
	"github.com/homeostat-dev/homeostat/operators/copyrator/internal/policy"
	"github.com/homeostat-dev/homeostat/operators/copyrator/internal/versions"
	"github.com/homeostat-dev/homeostat/sdk/conversion"
	"github.com/homeostat-dev/homeostat/sdk/program"
	"github.com/homeostat-dev/homeostat/sdk/webhook"
)

// Options are the operator's own settings, set by flags. The zero value of each field is the safe one.
type Options struct {
	// Namespace is the operator's namespace. Rules in it may read all namespaces and overwrite existing objects.
	Namespace string
	// RuleName is a pattern for rule names, with * and ?. "" means all rules.
	RuleName string
	// Secrets permits rules to copy Secrets. The operator then needs the permissions in config/secrets.
	Secrets bool
	// ExcludeNamespaces are patterns of namespaces that no rule copies to, in addition to kube-*.
	ExcludeNamespaces []string
	// AllowSourceNamespaces are patterns of namespaces that every rule may read, as if they had the annotation
	// copyrator.flant.com/allow-from: "*".
	AllowSourceNamespaces []string
	// WaiveConsent permits rules outside of Namespace to copy to namespaces without a matching annotation
	// copyrator.flant.com/accept-from.
	WaiveConsent bool
	// Limits are the limits of rules outside of Namespace. Nil means the default limits.
	Limits *Limits
}

// Limits limit the rules outside of the operator's namespace.
type Limits = policy.Limits

// Program returns the operator as a program.
func Program() *program.Program {
	var options Options
	return &program.Program{
		Name: name,
		Doc:  "The copyrator keeps copies of ConfigMaps and Secrets in other namespaces, as CopyratorRules say.",
		Flags: func(flags *flag.FlagSet) {
			options.BindFlags(flags)
			webhook.DefineFlags(flags)
		},
		Operators: func() ([]program.Runnable, error) {
			handler, err := conversion.Handler(versions.Conversion)
			op := &webhook.Operator[*v1.CopyratorRule]{Operator: New(options), Conversion: handler}
			return []program.Runnable{op}, errors.Join(err, options.Validate())
		},
	}
}

// BindFlags adds the flags to a flag set.
func (o *Options) BindFlags(flags *flag.FlagSet) {
	flags.StringVar(&o.Namespace, "namespace", "default",
		"namespace of the operator: rules in it may read all namespaces and write over what is there")
	flags.StringVar(&o.RuleName, "rule-name", "", "name of the rules to follow, with * and ?; default: all")
	flags.BoolVar(&o.Secrets, "secrets", true, "copy Secrets too, for which the operator needs the rights")
	flags.Func("exclude-namespaces",
		"namespaces that get no copies by any rule, separated by commas, with * and ?; kube-* never get any; default: none",
		listOf(&o.ExcludeNamespaces))
	flags.Func("allow-source-namespaces",
		"namespaces that every rule may read, separated by commas, with * and ?; default: none",
		listOf(&o.AllowSourceNamespaces))
	flags.Var(inverted{&o.WaiveConsent}, "require-consent",
		"keep rules outside of --namespace to namespaces whose annotation copyrator.flant.com/accept-from names theirs")
	limits := policy.DefaultLimits
	o.Limits = &limits
	for name, limit := range map[string]struct {
		value *int64
		usage string
	}{
		"max-sources":          {&limits.Sources, "sources of one rule"},
		"max-copies":           {&limits.Copies, "copies of one rule"},
		"max-bytes":            {&limits.Bytes, "bytes in all copies of one rule"},
		"max-namespace-rules":  {&limits.NamespaceRules, "rules of one namespace"},
		"max-namespace-copies": {&limits.NamespaceCopies, "copies of all rules of one namespace together"},
		"max-namespace-bytes":  {&limits.NamespaceBytes, "bytes in the copies of all rules of one namespace together"},
	} {
		flags.Int64Var(limit.value, name, *limit.value,
			"maximum number of "+limit.usage+", for rules outside of --namespace; 0 means no limit")
	}
}

// inverted is the value of a flag that is the opposite of the variable.
type inverted struct{ not *bool }

// Set implements flag.Value.
func (v inverted) Set(text string) error {
	value, err := strconv.ParseBool(text)
	*v.not = !value
	return err
}

// String implements flag.Value.
func (v inverted) String() string { return strconv.FormatBool(v.not == nil || !*v.not) }

// Get implements flag.Getter.
func (v inverted) Get() any { return !*v.not }

// IsBoolFlag reports that the flag can stand without a value.
func (inverted) IsBoolFlag() bool { return true }

// listOf parses a comma-separated list.
func listOf(items *[]string) func(string) error {
	return func(value string) error {
		*items = nil
		for item := range strings.SplitSeq(value, ",") {
			if item = strings.TrimSpace(item); item != "" {
				*items = append(*items, item)
			}
		}
		return nil
	}
}

// Validate returns the first invalid option as an error that names the flag.
func (o *Options) Validate() error {
	if msgs := validation.IsDNS1123Label(o.Namespace); len(msgs) > 0 {
		return fmt.Errorf("--namespace=%q: %s", o.Namespace, msgs[0])
	}
	for _, pattern := range slices.Concat([]string{o.RuleName}, o.ExcludeNamespaces, o.AllowSourceNamespaces) {
		if strings.Trim(pattern, "abcdefghijklmnopqrstuvwxyz0123456789-.*?") != "" {
			return fmt.Errorf("%q, in --rule-name, --exclude-namespaces or --allow-source-namespaces, matches no name: "+
				"use lower-case letters, digits, dashes, dots, * and ?", pattern)
		}
	}
	if l := o.Limits; l != nil && min(l.Sources, l.Copies, l.Bytes, l.NamespaceRules, l.NamespaceCopies, l.NamespaceBytes) < 0 {
		return fmt.Errorf("one of the limits --max-... is negative: %+v; 0 means no limit", *l)
	}
	return nil
}

// settings returns the options for package policy. The patterns are valid.
func (o *Options) settings() *policy.Settings {
	exclude, _ := policy.ParsePatterns(o.ExcludeNamespaces)
	sources, _ := policy.ParsePatterns(o.AllowSourceNamespaces)
	return &policy.Settings{
		Namespace: o.Namespace, Exclude: exclude, AllowSources: sources, WaiveConsent: o.WaiveConsent, ManagedBy: name,
	}
}
