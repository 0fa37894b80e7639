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

// FailurePolicy is the policy for a failed rollout.
type FailurePolicy string

// The policies.
const (
	// Continue does not hold other workloads, and is not held by their failures.
	Continue FailurePolicy = "Continue"
	// Hold holds other workloads with the same change. It is the default.
	Hold FailurePolicy = "Hold"
	// Rollback restores the previous template, and holds other workloads as Hold does.
	Rollback FailurePolicy = "Rollback"
)

// The maximal quiet period.
const maxQuietPeriod = 24 * time.Hour

// maxPriority is the greatest priority, and its negative the least one.
const maxPriority = 1000

// MaxValue is the maximal length of the value of an annotation in bytes. It limits the memory for one workload.
const MaxValue = 4096

// Settings are the settings in the annotations of a workload.
type Settings struct {
	// Enabled is nil if the workload does not set it.
	Enabled *bool
	// ConfigMaps and Secrets are additional sources.
	ConfigMaps, Secrets []string
	// Ignore and HotReload are names of ConfigMaps and Secrets.
	Ignore, HotReload []string
	// Quiet is the time without a change before a rollout.
	Quiet time.Duration
	// Window restricts the start of rollouts; nil means no restriction.
	Window *window.Window
	// OnFailure is never empty.
	OnFailure FailurePolicy
	// DryRun reports rollouts without starting them.
	DryRun bool
	// Priority defaults to 0. It orders the workloads of one namespace.
	Priority int
}

// Effect is the effect of an annotation that cannot be read. It is always the one with the fewest rollouts.
type Effect int

// The effects.
const (
	// Holds means that the workload is not rolled until the annotation is corrected.
	Holds Effect = iota
	// HoldsSources means also that the recorded sources stay, because the present ones are not known.
	HoldsSources
	// IgnoresObject means that the ConfigMap or Secret with the annotation is ignored.
	IgnoresObject
	// Defaults means that the default applies.
	Defaults
)

// effects lists the annotations with another effect than Holds.
var effects = map[string]Effect{
	ConfigMaps: HoldsSources, Secrets: HoldsSources, Ignore: HoldsSources, HotReload: HoldsSources, Priority: Defaults,
}

// Invalid is an annotation, or label of the namespace, that cannot be read.
type Invalid struct {
	// Name is the name with the prefix.
	Name string
	// Object is the ConfigMap or Secret with the annotation, as "Kind/name"; empty for the workload.
	Object string
	// Unknown means that there is no annotation of that name.
	Unknown bool
	// AffectsEnabled means that the mistake may be the reason why the workload is disabled.
	AffectsEnabled bool
	// Effect is what the operator does until it is corrected.
	Effect Effect
	// Err is a sentence with the correction.
	Err error
}

// ErrUnknown is the error of an unknown annotation with the operator's prefix.
var ErrUnknown = errors.New("there is no such annotation")

// settingNames lists the annotations of a workload that users set.
var settingNames = []string{
	Enabled, ConfigMaps, Secrets, Ignore, HotReload, QuietPeriod, Window, OnFailure, DryRun, Priority,
}

// maxUnknown is the maximal number of reported unknown annotations.
const maxUnknown = 5

// Parse parses the settings. Invalid ones have their defaults and are returned, sorted by name. The caller must apply their
// effects.
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
		value, ok := annotations[name]
		if !ok {
			continue
		}
		if err := readValue(value, read); err != nil {
			invalid = append(invalid, Invalid{Name: name, AffectsEnabled: name == Enabled, Effect: effects[name], Err: err})
		}
	}
	unknown := 0
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		if strings.HasPrefix(name, Prefix) && fields[name] == nil && !slices.Contains(recordNames, name) && unknown < maxUnknown {
			unknown++
			invalid = append(invalid, Invalid{Name: name, Unknown: true, AffectsEnabled: true, Err: ErrUnknown})
		}
	}
	slices.SortFunc(invalid, func(a, b Invalid) int { return strings.Compare(a.Name, b.Name) })
	return s, invalid
}

// Trim returns a copy of the annotations of a workload that has only what [Parse] and [ReadRecord] use, and whose size is
// limited. Both have the same result for it.
func Trim(annotations map[string]string) map[string]string {
	trimmed := map[string]string{}
	unknown := 0
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		value := annotations[name]
		switch {
		case !strings.HasPrefix(name, Prefix):
		case slices.Contains(settingNames, name), slices.Contains(recordNames, name):
			trimmed[name] = strings.Clone(value[:min(len(value), MaxValue+1)]) // still too long
		case unknown < maxUnknown:
			unknown++
			trimmed[name] = ""
		}
	}
	return trimmed
}

// readValue calls read, unless the value is too long.
func readValue(value string, read func(string) error) error {
	if len(value) > MaxValue {
		return fmt.Errorf("%s is longer than %d bytes", quote(value), MaxValue)
	}
	return read(strings.TrimSpace(value))
}

// Ignored reports whether a ConfigMap or Secret with these annotations is ignored. With an error, the annotation cannot be
// read, and the object is ignored.
func Ignored(annotations map[string]string) (ignored bool, err error) {
	value, ok := annotations[Ignore]
	if !ok {
		return false, nil
	}
	if err := readValue(value, func(v string) error { return boolean(v, func(b bool) { ignored = b }) }); err != nil {
		return true, err
	}
	return ignored, nil
}

// Default parses the label of a namespace; nil means that it is not set.
func Default(labels map[string]string) (*bool, *Invalid) {
	value, ok := labels[DefaultLabel]
	switch {
	case !ok:
		return nil, nil
	case value == "enabled", value == "disabled":
		return new(value == "enabled"), nil
	default:
		err := fmt.Errorf("the namespace's label says %s, which is neither %q nor %q", quote(value), "enabled", "disabled")
		return nil, &Invalid{Name: DefaultLabel, AffectsEnabled: true, Err: err}
	}
}

func boolean(v string, set func(bool)) error {
	if v != "true" && v != "false" {
		return fmt.Errorf("%s is neither %q nor %q", quote(v), "true", "false")
	}
	set(v == "true")
	return nil
}

// names parses a list of object names. One invalid name makes the whole list invalid.
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
	if err != nil || d < 0 || d > maxQuietPeriod {
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
	if err != nil || n < -maxPriority || n > maxPriority {
		return fmt.Errorf("%s is no whole number from %d to %d", quote(v), -maxPriority, maxPriority)
	}
	*into = n
	return nil
}

// quote quotes the beginning of a value: it becomes a part of an annotation, and the annotations of an object have a size
// limit.
func quote(v string) string {
	const enough = 80
	if len(v) > enough {
		return strconv.Quote(strings.ToValidUTF8(v[:enough], "")) + "..."
	}
	return strconv.Quote(v)
}
