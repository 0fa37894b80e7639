package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/homeostat-dev/homeostat/testkit/internal/socketdir"
)

// keyPrefix is the beginning of the key of a project's sandbox directory. A user has at most one sandbox for each project.
const keyPrefix = "up-"

// projectKey returns the key of the project that contains a folder.
func projectKey(dir string) string {
	sum := sha256.Sum256([]byte(projectRoot(dir)))
	return keyPrefix + hex.EncodeToString(sum[:4])
}

// projectRoot returns the root folder of the project that contains a folder: the nearest one with a repository, with a Go
// workspace, or with a Go module, in this order, or else the folder itself.
func projectRoot(dir string) string {
	for _, marker := range []string{".git", "go.work", "go.mod"} {
		for at := dir; ; at = filepath.Dir(at) {
			if _, err := os.Stat(filepath.Join(at, marker)); err == nil {
				return at
			}
			if at == filepath.Dir(at) {
				break
			}
		}
	}
	return dir
}

// findSandbox returns the client of the present project's sandbox.
func findSandbox() (client, error) {
	root, err := socketdir.OpenRoot()
	if err != nil {
		return client{}, err
	}
	dir, err := os.Getwd()
	if err != nil {
		return client{}, fmt.Errorf("finding the project: %w", err)
	}
	return client{dir: root.Dir(projectKey(dir))}, nil
}

// runningSandboxes returns the clients of the running sandboxes of all projects.
func runningSandboxes() ([]client, error) {
	root, err := socketdir.OpenRoot()
	if err != nil {
		return nil, err
	}
	var all []client
	for _, key := range root.Keys() {
		box := client{dir: root.Dir(key)}
		if !strings.HasPrefix(key, keyPrefix) {
			continue
		}
		if _, err := box.status(); err == nil {
			all = append(all, box)
		}
	}
	return all, nil
}

func (c *command) down(ctx context.Context, args []string) error {
	var all bool
	rest, err := c.parse("down", args, func(f *flag.FlagSet) { f.BoolVar(&all, "all", false, "") })
	if err != nil {
		return err
	}
	if err := c.noArguments("down", rest); err != nil {
		return err
	}
	boxes, err := runningSandboxes()
	if err != nil {
		return err
	}
	if !all {
		box, err := findSandbox()
		if err != nil {
			return err
		}
		others := len(boxes)
		boxes = []client{box}
		if _, err := box.status(); err != nil && others > 0 {
			c.say("nothing is running in this project; testkit down --all stops the clusters of other projects: %d", others)
			return nil
		}
	}
	if len(boxes) == 0 {
		c.say("nothing is running")
	}
	var errs []error
	for _, box := range boxes {
		errs = append(errs, c.stop(ctx, box))
	}
	return errors.Join(errs...)
}

// stop stops one sandbox and says so.
func (c *command) stop(ctx context.Context, box client) error {
	s, _ := box.status() // without a status there is nothing to stop, or no detail to report
	err := box.stop(ctx)
	switch {
	case errors.Is(err, errNotRunning):
		c.say("%s", box.notRunning())
		box.dir.RemoveFailure()
		return nil
	case err == nil && s.Context != "":
		c.say("%s", leftBehind(s.Context, s.Dirs))
	case err == nil:
		c.say("stopped")
	}
	return err
}
