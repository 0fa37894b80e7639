package operatorproc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/homeostat-dev/homeostat/testkit/internal/runname"
)

// A Command describes how an operator is run.
type Command struct {
	// Args are the program and its arguments. The program is searched in PATH unless it contains a slash. The placeholders
	// {kubeconfig} and {namespace} stand for the two fields below, at any position, and {namespace:NAME} for a further
	// namespace, whose name is that of Namespace with the suffix -NAME. {port} and {port:NAME} stand for free TCP ports of the
	// loopback interface: a new one for each process and each name.
	Args []string
	// Env adds variables, as KEY=value, with the same placeholders. They override those that every process gets:
	//
	//   - KUBECONFIG is Kubeconfig;
	//   - NAMESPACE, POD_NAMESPACE and WATCH_NAMESPACE are Namespace;
	//   - NO_PROXY and no_proxy also name the loopback interface;
	//   - PYTHONUNBUFFERED is 1, so that Python prints each line at once.
	//
	// The process also inherits this process's environment, except for variables that begin with KUBERNETES_: they would
	// lead a client library to another cluster.
	Env []string
	// Dir is the working directory. Empty means that of this process.
	Dir string
	// Kubeconfig is the path of a kubeconfig for the operator's cluster.
	Kubeconfig string
	// Namespace is the operator's namespace.
	Namespace string
}

func (c Command) prepare() (*exec.Cmd, error) {
	if len(c.Args) == 0 || c.Args[0] == "" {
		return nil, errors.New("starting the operator: there is no command: give the program and its arguments")
	}
	if info, err := os.Stat(c.Dir); c.Dir != "" && (err != nil || !info.IsDir()) {
		// Without this check, the error of the system would be that the program does not exist
		return nil, fmt.Errorf("starting the operator: there is no folder %s to run it in: create it or give another one", c.Dir)
	}
	ports, err := freePorts(slices.Concat(c.Args, c.Env))
	if err != nil {
		return nil, err
	}
	replacer := strings.NewReplacer(append(ports, "{kubeconfig}", c.Kubeconfig)...)
	replace := func(text string) string { return runname.Expand(replacer.Replace(text), c.Namespace) }
	args := make([]string, len(c.Args))
	for i, arg := range c.Args {
		args[i] = replace(arg)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = c.Dir
	cmd.Env = c.environment(os.Environ())
	for _, variable := range c.Env {
		cmd.Env = append(cmd.Env, replace(variable)) // of two equal variables the last one counts
	}
	return cmd, nil
}

// environment returns the variables of every process.
func (c Command) environment(inherited []string) []string {
	env := slices.DeleteFunc(slices.Clone(inherited), func(variable string) bool {
		return strings.HasPrefix(variable, "KUBERNETES_")
	})
	env = append(env,
		"KUBECONFIG="+c.Kubeconfig,
		"NAMESPACE="+c.Namespace, "POD_NAMESPACE="+c.Namespace, "WATCH_NAMESPACE="+c.Namespace,
		"PYTHONUNBUFFERED=1",
	)
	for _, key := range []string{"NO_PROXY", "no_proxy"} {
		env = append(env, key+"="+strings.TrimPrefix(lookup(inherited, key)+",127.0.0.1", ","))
	}
	return env
}

func lookup(env []string, key string) string {
	for _, variable := range slices.Backward(env) {
		if value, found := strings.CutPrefix(variable, key+"="); found {
			return value
		}
	}
	return ""
}
