package annotation

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/window"
)

// FailurePolicy says what a failed rollout means.
type FailurePolicy string

// The policies.
const (
	// Continue holds nobody back, and is not held back.
	Continue FailurePolicy = "Continue"
	// Hold keeps others from rolling because of what made this one fail. It is the default.
	Hold FailurePolicy = "Hold"
	// Rollback takes the digest out of the template again, and holds as Hold does.
	Rollback FailurePolicy = "Rollback"
)

// The longest quiet period that is taken seriously.
const longestQuiet = 24 * time.Hour

// Settings is what the annotations of a workload ask for.
type Settings struct {
	// Enabled is what the workload says, nil if it says nothing.
	Enabled *bool
	// ConfigMaps and Secrets are further ones that it uses.
	ConfigMaps, Secrets []string
	// Ignore and HotReload are names of ConfigMaps and Secrets.
	Ignore, HotReload []string
	// Quiet is how long nothing may have changed before a rollout.
	Quiet time.Duration
	// Window says when rollouts may start; nil means always.
	Window *window.Window
	// OnFailure is never empty.
	OnFailure FailurePolicy
	// DryRun is to say and not to do.
	DryRun bool
	// Priority is 0 unless it is given.
	Priority int
}

// Invalid is an annotation, or a label of the namespace, that cannot be read, so that its default holds.
type Invalid struct {
	// Name is that of the annotation, with the prefix.
	Name string
	// Unknown means that the operator has no annotation of that name.
	Unknown bool
	// Outside means that it may be why the workload takes no part.
	Outside bool
	// Err is a sentence that names the fix.
	Err error
}

// ErrUnknown is the error of an annotation that is none of the operator's, although it has its prefix.
var ErrUnknown = errors.New("there is no such annotation")

// mostUnknown is how many annotations that do not exist are told of.
const mostUnknown = 5

// Parse reads the settings. What it cannot read has its default and is returned, in the order of the names.
func Parse(annotations map[string]string, quiet time.Duration) (Settings, []Invalid) {
	s := Settings{Quiet: quiet, OnFailure: Hold}
	fields := map[string]func(string) error{
		Enabled:     func(v string) error { return boolean(v, func(b bool) { s.Enabled = &b }) },
		ConfigMaps:  func(v string) error { return names(v, &s.ConfigMaps) },
		Secrets:     func(v string) error { return names(v, &s.Secrets) },
		Ignore:      func(v string) error { return names(v, &s.Ignore) },
		HotReload:   func(v string) error { return names(v, &s.HotReload) },
		QuietPeriod: func(v string) error { return quietPeriod(v, &s.Quiet) },
		Window:      func(v string) (err error) { s.Window, err = window.Parse(v); return err },
		OnFailure:   func(v string) error { return failurePolicy(v, &s.OnFailure) },
		DryRun:      func(v string) error { return boolean(v, func(b bool) { s.DryRun = b }) },
		Priority:    func(v string) error { return number(v, &s.Priority) },
	}
	var invalid []Invalid
	for name, read := range fields {
		if value, ok := annotations[name]; ok {
			if err := read(strings.TrimSpace(value)); err != nil {
				invalid = append(invalid, Invalid{Name: name, Outside: name == Enabled, Err: err})
			}
		}
	}
	unknown := 0
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		if strings.HasPrefix(name, Prefix) && fields[name] == nil && !slices.Contains(all, name) && unknown < mostUnknown {
			unknown++
			invalid = append(invalid, Invalid{Name: name, Unknown: true, Outside: true, Err: ErrUnknown})
		}
	}
	slices.SortFunc(invalid, func(a, b Invalid) int { return strings.Compare(a.Name, b.Name) })
	return s, invalid
}

// Default reads the label of a namespace: whether its workloads take part, nil if it does not say.
func Default(labels map[string]string) (*bool, *Invalid) {
	value, ok := labels[DefaultLabel]
	switch {
	case !ok:
		return nil, nil
	case value == "enabled", value == "disabled":
		return new(value == "enabled"), nil
	default:
		err := fmt.Errorf("the namespace's label says %s, which is neither %q nor %q", quote(value), "enabled", "disabled")
		return nil, &Invalid{Name: DefaultLabel, Outside: true, Err: err}
	}
}

func boolean(v string, set func(bool)) error {
	if v != "true" && v != "false" {
		return fmt.Errorf("%s is neither %q nor %q", quote(v), "true", "false")
	}
	set(v == "true")
	return nil
}

// names reads a list of names. One that cannot be the name of an object is none: nothing of it is taken then.
func names(v string, into *[]string) error {
	var list []string
	for name := range strings.SplitSeq(v, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if len(validation.IsDNS1123Subdomain(name)) > 0 {
			return fmt.Errorf("%s is no name of an object in this namespace", quote(name))
		}
		list = append(list, name)
	}
	*into = list
	return nil
}

func quietPeriod(v string, into *time.Duration) error {
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 || d > longestQuiet {
		return fmt.Errorf("%s is no duration from 0s to 24h, such as 10s", quote(v))
	}
	*into = d
	return nil
}

func failurePolicy(v string, into *FailurePolicy) error {
	switch p := FailurePolicy(v); p {
	case Continue, Hold, Rollback:
		*into = p
		return nil
	default:
		return fmt.Errorf("%s is none of Continue, Hold and Rollback", quote(v))
	}
}

func number(v string, into *int) error {
	n, err := strconv.Atoi(v)
	if err != nil {
		return errors.New(quote(v) + " is no whole number")
	}
	*into = n
	return nil
}

// quote repeats what somebody wrote, or the beginning of it: it becomes a part of an annotation, and all of them together
// have a limit.
func quote(v string) string {
	const enough = 80
	if len(v) > enough {
		return strconv.Quote(strings.ToValidUTF8(v[:enough], "")) + "..."
	}
	return strconv.Quote(v)
}
