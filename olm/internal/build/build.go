// Package build builds the programs of OLM and of the operators.
package build

import (
	"context"
	"path/filepath"

	"github.com/homeostat-dev/homeostat/olm/internal/fixture"
	"github.com/homeostat-dev/homeostat/olm/internal/programs"
	"github.com/homeostat-dev/homeostat/olm/internal/v0"
	"github.com/homeostat-dev/homeostat/olm/internal/v1"
	"github.com/homeostat-dev/homeostat/testkit/sandbox"
)

// All builds both versions of OLM and all versions of the operators, unless they are in the user's cache. Programs that must
// become ready within a timeout then do not wait for a compiler. root is the folder of the repository. notice is called
// before steps that take minutes.
func All(ctx context.Context, root string, notice func(string)) error {
	path := func(name string) string { return filepath.Join(root, filepath.FromSlash(name)) }
	if _, err := v0.Build(ctx, path("olm/programs"), notice); err != nil {
		return err
	}
	if _, err := v1.Build(ctx, path("olm/programs/v1"), notice); err != nil {
		return err
	}
	names, err := fixture.Operators(path("olm/templates"))
	if err != nil {
		return err
	}
	dirs := []string{path("sdk/e2e/mailbox")} // with webhooks
	for _, name := range names {
		dirs = append(dirs, path("operators/"+name))
	}
	for _, dir := range dirs {
		project, err := sandbox.Load(ctx, dir)
		if err != nil {
			return err
		}
		if _, err := project.Build(ctx); err != nil {
			return err
		}
	}
	former := programs.PreviousRelease{Released: path("olm/released"), Notice: notice}
	return former.Build(ctx)
}
