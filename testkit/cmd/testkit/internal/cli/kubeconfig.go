package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func (c *command) kubeconfig(args []string) error {
	if err := c.noArguments("kubeconfig", args); err != nil {
		return err
	}
	box, err := findSandbox()
	if err != nil {
		return err
	}
	s, err := box.status()
	switch {
	case errors.Is(err, errNotRunning):
		said, separator := box.notRunning(), "; "
		if strings.Contains(said, "\n") {
			separator = "\n"
		}
		return errors.New(said + separator + "start it with " + upCommand("", ""))
	case err != nil:
		return err
	case s.Kubeconfig == "":
		return errors.New("the control plane is still starting")
	}
	_, _ = fmt.Fprintln(c.out, s.Kubeconfig)
	return nil
}

// notRunning says that nothing is running, and why, as far as it is known.
func (c client) notRunning() string {
	said := errNotRunning.Error()
	if reason, at, err := c.dir.ReadFailure(); err == nil {
		return fmt.Sprintf("%s: it ended at %s: %s", said, at.Format(time.TimeOnly), strings.TrimSpace(reason))
	}
	if s, err := c.dir.ReadState(); err == nil && !s.Owner.Alive() {
		return said + ": its process was killed"
	}
	return said
}

// hasKubeconfig reports whether kubectl has a file by KUBECONFIG. After the end of a cluster, the variable names none.
func hasKubeconfig() bool {
	return slices.ContainsFunc(filepath.SplitList(os.Getenv("KUBECONFIG")), func(file string) bool {
		_, err := os.Stat(file)
		return err == nil
	})
}
