package configrollout

import (
	"errors"
	"flag"
	"time"
)

// Options are what the operator's flags set. The zero value is not usable; see [DefaultOptions].
type Options struct {
	// Secrets lets Secrets count as ConfigMaps do. Without it none is ever read, and the operator needs no right to.
	Secrets bool
	// AllWorkloads lets each workload take part that does not say otherwise, unless its namespace does.
	AllWorkloads bool
	// MaxConcurrent is how many rollouts are under way at once, and MaxConcurrentPerNamespace how many in one namespace.
	MaxConcurrent, MaxConcurrentPerNamespace int
	// QuietPeriod is how long nothing may have changed before a rollout, for workloads that do not say.
	QuietPeriod time.Duration
	// RolloutDeadline is how long a rollout of a StatefulSet or DaemonSet may make no progress. A Deployment says that itself.
	RolloutDeadline time.Duration
}

// DefaultOptions are those without any flag.
func DefaultOptions() Options {
	return Options{
		MaxConcurrent: 10, MaxConcurrentPerNamespace: 2, QuietPeriod: 5 * time.Second, RolloutDeadline: 10 * time.Minute,
	}
}

// Flags defines the flags that set the options.
func (o *Options) Flags(fs *flag.FlagSet) {
	fs.BoolVar(&o.Secrets, "secrets", o.Secrets, "let Secrets count as ConfigMaps do; it needs the rights of config/secrets")
	fs.BoolVar(&o.AllWorkloads, "all-workloads", o.AllWorkloads,
		"let each workload take part that neither itself nor by its namespace says otherwise")
	fs.IntVar(&o.MaxConcurrent, "max-concurrent-rollouts", o.MaxConcurrent, "how many rollouts are under way at once")
	fs.IntVar(&o.MaxConcurrentPerNamespace, "max-concurrent-rollouts-per-namespace", o.MaxConcurrentPerNamespace,
		"how many rollouts are under way at once in one namespace")
	fs.DurationVar(&o.QuietPeriod, "quiet-period", o.QuietPeriod,
		"how long nothing may have changed before a rollout, for workloads that do not say")
	fs.DurationVar(&o.RolloutDeadline, "rollout-deadline", o.RolloutDeadline,
		"how long a rollout of a StatefulSet or DaemonSet may make no progress; a Deployment says that itself")
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
	return errors.Join(errs...)
}
