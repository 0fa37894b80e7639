package scaffold

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
)

// replacedModules are the modules of a checkout that an operator outside of it is built with.
var replacedModules = []string{"sdk", "testkit", "testkit/cmd/testkit", "testkit/sandbox"}

// ReplacedModules returns the modules of a checkout that the operator is built with.
func (op *operator) ReplacedModules() string { return strings.Join(replacedModules, " ") }

// useCheckout removes the folders of this machine from go.mod, which is committed, and writes them to files that are not: to
// go.work for the go command, and to local.mk for the Makefile.
func useCheckout(dir, homeostat string) error {
	name := filepath.Join(dir, "go.mod")
	data, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("reading go.mod: %w", err)
	}
	mod, err := modfile.Parse(name, data, nil)
	if err != nil {
		return fmt.Errorf("reading go.mod: %w", err)
	}
	for _, m := range replacedModules {
		if err := mod.DropReplace(modulePrefix+m, ""); err != nil {
			return fmt.Errorf("removing the replace directives from go.mod: %w", err)
		}
	}
	mod.Cleanup()
	files := map[string][]byte{
		"go.mod":   modfile.Format(mod.Syntax),
		"go.work":  goWork(mod.Go.Version, filepath.ToSlash(homeostat)),
		"local.mk": localMake(homeostat),
	}
	if err := writeFiles(dir, files); err != nil {
		return fmt.Errorf("writing the module: %w", err)
	}
	return nil
}

// localMake returns the file that names the checkout for the Makefile.
func localMake(homeostat string) []byte {
	return []byte("# The checkout of Homeostat on this machine. Do not commit it.\nHOMEOSTAT ?= " + homeostat + "\n")
}

// goWork returns the workspace that the Makefile would write.
func goWork(version, homeostat string) []byte {
	var b strings.Builder
	b.WriteString("// Written by make, which explains it. Do not commit it.\n\ngo " + version + "\n\nuse .\n\nreplace (\n")
	for _, m := range replacedModules {
		fmt.Fprintf(&b, "\t%s%s => \"%s/%s\"\n", modulePrefix, m, homeostat, m)
	}
	b.WriteString(")\n")
	return []byte(b.String())
}

// checkPath rejects folders that make cannot handle.
func (at *location) checkPath() error {
	for _, dir := range []string{at.dir, at.homeostat} {
		if strings.ContainsAny(dir, " \t'\"#$:\\") {
			return usageErrorf("the folder %s will not do, because make cannot handle its name: choose one without spaces, "+
				"quotes, #, $ and colons", dir)
		}
	}
	return nil
}

// findCommit sets the commit of the checkout, which colleagues and CI fetch. It is unknown without git.
func (at *location) findCommit(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "git", "-C", at.homeostat, "rev-parse", "--verify", "--quiet", "HEAD")
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("looking for the commit of %s: %w", at.homeostat, err)
	}
	at.commit = strings.TrimSpace(string(out))
	return nil
}
