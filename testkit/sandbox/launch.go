package sandbox

import (
	"maps"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat-dev/homeostat/testkit/internal/freeport"
)

// The flags for addresses, as in controller-runtime's scaffolds and package sdk.
const (
	probeFlag   = "health-probe-bind-address"
	metricsFlag = "metrics-bind-address"
)

// A launch is the command line and environment of a container's program on this machine.
type launch struct {
	args, env []string
	// probe and metrics are the addresses that the program serves them at.
	probe, metrics string
	// unknown are the variables whose values only a kubelet knows.
	unknown []string
}

// newLaunch converts arguments and environment of a container. Flags get their values for this machine, including
// address flags; programs configured by environment variables find the same values there.
func newLaunch(c *corev1.Container, env []string, flags map[string]string, from sources) (launch, error) {
	l := launch{env: env}
	var err error
	if l.probe, err = freeAddress(); err != nil {
		return l, err
	}
	if l.metrics, err = freeAddress(); err != nil {
		return l, err
	}
	local := map[string]string{metricsFlag: l.metrics, probeFlag: l.probe}
	maps.Copy(local, flags)
	vars, err := from.variables(c)
	if err != nil {
		return l, err
	}
	l.unknown = vars.unknown
	for _, name := range slices.Sorted(maps.Keys(vars.values)) {
		l.env = append(l.env, name+"="+vars.values[name])
	}
	if len(c.Command) > 1 {
		l.args = append(l.args, c.Command[1:]...) // the first is the program
	}
	l.args = append(l.args, c.Args...)
	for i := range l.args {
		l.args[i] = expand(l.args[i], vars.values)
	}
	l.args = localize(l.args, local)
	for flag, value := range local {
		if name := strings.ToUpper(strings.ReplaceAll(flag, "-", "_")); vars.values[name] != off {
			l.env = append(l.env, name+"="+value)
		}
	}
	return l, nil
}

var reference = regexp.MustCompile(`\$\$|\$\([-._a-zA-Z][-._a-zA-Z0-9]*\)`)

// expand replaces $(NAME) by the value of a variable, as a kubelet does.
func expand(text string, vars map[string]string) string {
	return reference.ReplaceAllStringFunc(text, func(ref string) string {
		if ref == "$$" {
			return "$"
		}
		if value, ok := vars[ref[2:len(ref)-1]]; ok {
			return value
		}
		return ref
	})
}

// off is the value of an address flag that disables the endpoint.
const off = "0"

// localize replaces the values of flags among the arguments by those for this machine. It adds no flags, because the
// program may not define them. A disabled endpoint stays disabled.
func localize(args []string, values map[string]string) []string {
	var local []string
	for i := 0; i < len(args); i++ {
		name, old, inline := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		value, known := values[name]
		if !known || !strings.HasPrefix(args[i], "-") {
			local = append(local, args[i])
			continue
		}
		if !inline && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			i++ // the value was a separate argument
			old = args[i]
		}
		if old == off {
			value = off
		}
		local = append(local, "--"+name+"="+value)
	}
	return local
}

func freeAddress() (string, error) {
	port, err := freeport.Get()
	return net.JoinHostPort(freeport.Host, strconv.Itoa(port)), err
}
