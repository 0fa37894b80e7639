package copyrator

import (
	"flag"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/homeostat-dev/homeostat/sdk/program"
)

// Options are the operator's own settings, set by flags.
type Options struct {
	// Namespace is the operator's namespace. Rules in it may read all namespaces and overwrite existing objects.
	Namespace string
	// RuleName is a pattern for rule names, with * and ?. "" means all rules.
	RuleName string
	// Secrets permits rules to copy Secrets. The operator then needs the permissions in config/secrets.
	Secrets bool
	// ExcludeNamespaces are patterns of namespaces that a rule without targets does not copy to.
	ExcludeNamespaces []string
	// AllowSourceNamespaces are patterns of namespaces that every rule may read, as if they had the annotation
	// copyrator.flant.com/allow-from: "*".
	AllowSourceNamespaces []string
	// Consent restricts rules outside of Namespace to target namespaces with a matching annotation
	// copyrator.flant.com/accept-from.
	Consent bool
}

// Program returns the operator as a program.
func Program() *program.Program {
	var options Options
	return &program.Program{
		Name:  name,
		Doc:   "The copyrator keeps copies of ConfigMaps and Secrets in other namespaces, as CopyratorRules say.",
		Flags: options.BindFlags,
		Operators: func() ([]program.Runnable, error) {
			return []program.Runnable{New(options)}, options.Validate()
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
		"namespaces that get no copies by rules that name no targets, separated by commas, with * and ?; default: none",
		listOf(&o.ExcludeNamespaces))
	flags.Func("allow-source-namespaces",
		"namespaces that every rule may read, separated by commas, with * and ?; default: none",
		listOf(&o.AllowSourceNamespaces))
	flags.BoolVar(&o.Consent, "require-consent", false,
		"keep rules outside of --namespace to namespaces whose annotation copyrator.flant.com/accept-from names theirs")
}

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
	return nil
}
