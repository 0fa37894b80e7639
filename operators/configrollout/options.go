package configrollout

import (
	"errors"
	"flag"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/digest"
)

// Options are the options of the operator, set by flags. The zero value is not usable; see [DefaultOptions].
type Options struct {
	// Secrets includes Secrets. Without it no Secret is read, and no permission for that is needed.
	Secrets bool
	// KeyNamespace is the namespace of the Secret with the key of the digests; empty means the namespace of the program's pod.
	// Without Secrets there is no key.
	KeyNamespace string
	// AllWorkloads enables each workload that is not disabled by itself or by its namespace.
	AllWorkloads bool
	// MaxConcurrent limits the concurrent rollouts, and MaxConcurrentPerNamespace those in one namespace.
	MaxConcurrent, MaxConcurrentPerNamespace int
	// QuietPeriod is the default time without a change before a rollout.
	QuietPeriod time.Duration
	// RolloutDeadline is the time without progress after which a rollout of a StatefulSet or DaemonSet has failed. A
	// Deployment has its own deadline.
	RolloutDeadline time.Duration
	// MaxRolloutDeadline is the upper limit of a Deployment's own deadline. It is also the time after which a rollout takes
	// no slot from other namespaces, even if it makes progress.
	MaxRolloutDeadline time.Duration
}

// DefaultOptions returns the options without flags.
func DefaultOptions() Options {
	return Options{
		MaxConcurrent: 10, MaxConcurrentPerNamespace: 2, QuietPeriod: 5 * time.Second, RolloutDeadline: 10 * time.Minute,
		MaxRolloutDeadline: 30 * time.Minute,
	}
}

// BindFlags adds the flags to a flag set.
func (o *Options) BindFlags(fs *flag.FlagSet) {
	fs.BoolVar(&o.Secrets, "secrets", o.Secrets, "let Secrets count as ConfigMaps do; it needs the rights of config/secrets")
	fs.StringVar(&o.KeyNamespace, "key-namespace", o.KeyNamespace, "with --secrets: namespace of Secret "+digest.KeySecret+
		" with the key of the digests, which the operator creates; default: the one the program runs in")
	fs.BoolVar(&o.AllWorkloads, "all-workloads", o.AllWorkloads,
		"let each workload take part that neither itself nor by its namespace says otherwise")
	fs.IntVar(&o.MaxConcurrent, "max-concurrent-rollouts", o.MaxConcurrent, "how many rollouts are under way at once")
	fs.IntVar(&o.MaxConcurrentPerNamespace, "max-concurrent-rollouts-per-namespace", o.MaxConcurrentPerNamespace,
		"how many rollouts are under way at once in one namespace")
	fs.DurationVar(&o.QuietPeriod, "quiet-period", o.QuietPeriod,
		"how long nothing may have changed before a rollout, for workloads that do not say")
	fs.DurationVar(&o.RolloutDeadline, "rollout-deadline", o.RolloutDeadline,
		"how long a rollout of a StatefulSet or DaemonSet may make no progress; a Deployment says that itself")
	fs.DurationVar(&o.MaxRolloutDeadline, "max-rollout-deadline", o.MaxRolloutDeadline,
		"how long a Deployment's own deadline may be, and how long a rollout may take a slot from other namespaces")
}

// namespaceFile holds the namespace of a pod.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// keyNamespace returns the namespace of the key; empty if it is not known.
func (o *Options) keyNamespace() string {
	if o.KeyNamespace != "" || !o.Secrets {
		return o.KeyNamespace
	}
	text, err := os.ReadFile(namespaceFile)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func (o *Options) validate() error {
	var errs []error
	if o.MaxConcurrent < 1 || o.MaxConcurrentPerNamespace < 1 {
		errs = append(errs, errors.New("--max-concurrent-rollouts, also per namespace, must be at least 1: "+
			"with 0 nothing would ever be rolled"))
	}
	if o.QuietPeriod < 0 {
		errs = append(errs, errors.New("--quiet-period must not be negative"))
	}
	if o.RolloutDeadline < time.Second {
		errs = append(errs, errors.New("--rollout-deadline must be at least 1s"))
	}
	if o.MaxRolloutDeadline < o.RolloutDeadline {
		errs = append(errs, errors.New("--max-rollout-deadline must be at least --rollout-deadline"))
	}
	if o.KeyNamespace != "" && len(validation.IsDNS1123Label(o.KeyNamespace)) > 0 {
		errs = append(errs, errors.New("--key-namespace is no name of a namespace"))
	}
	return errors.Join(errs...)
}
