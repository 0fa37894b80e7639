package operatorproc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// A Command says how an operator is run.
type Command struct {
	// Args are the program and its arguments. The program is looked up in PATH unless it has a slash. {kubeconfig} and
	// {namespace} are replaced by the two fields below, wherever they occur.
	Args []string
	// Env are further variables, as KEY=value, with the same replacements. They win over those that every incarnation
	// gets:
	//
	//   - KUBECONFIG is Kubeconfig;
	//   - NAMESPACE, POD_NAMESPACE and WATCH_NAMESPACE are Namespace;
	//   - NO_PROXY and no_proxy also name the loopback interface;
	//   - PYTHONUNBUFFERED is 1, so that what Python prints is seen when it prints it.
	//
	// The rest is the environment of this process without the variables that begin with KUBERNETES_: by them a client
	// library would find another cluster.
	Env []string
	// Dir is where the program runs. Empty means where this process does.
	Dir string
	// Kubeconfig is the path of a kubeconfig for the operator's cluster.
	Kubeconfig string
	// Namespace is where the operator is to work.
	Namespace string
}

func (c Command) prepare() (*exec.Cmd, error) {
	if len(c.Args) == 0 || c.Args[0] == "" {
		return nil, errors.New("starting the operator: there is no command: give the program and its arguments")
	}
	if info, err := os.Stat(c.Dir); c.Dir != "" && (err != nil || !info.IsDir()) {
		// The system would say that the program does not exist.
		return nil, fmt.Errorf("starting the operator: there is no folder %s to run it in: create it or give another one", c.Dir)
	}
	replace := strings.NewReplacer("{kubeconfig}", c.Kubeconfig, "{namespace}", c.Namespace).Replace
	args := make([]string, len(c.Args))
	for i, arg := range c.Args {
		args[i] = replace(arg)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = c.Dir
	cmd.Env = c.environment(os.Environ())
	for _, variable := range c.Env {
		cmd.Env = append(cmd.Env, replace(variable)) // of a variable that is there twice the last one counts
	}
	return cmd, nil
}

// environment is what every incarnation gets.
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
