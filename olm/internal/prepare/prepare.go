// Package prepare builds the programs that OLM and the operators are.
package prepare

import (
	"context"
	"path/filepath"

	"github.com/homeostat-dev/homeostat/olm/internal/programs"
	"github.com/homeostat-dev/homeostat/olm/internal/stage"
	"github.com/homeostat-dev/homeostat/olm/internal/v0"
	"github.com/homeostat-dev/homeostat/olm/internal/v1"
	"github.com/homeostat-dev/homeostat/testkit/sandbox"
)

// All builds OLM, of both versions, and the operators, of all versions, where they are not in the user's cache: what has
// only so much time to become ready does not wait for a compiler then. root is the folder of the repository. notice is told
// what takes minutes.
func All(ctx context.Context, root string, notice func(string)) error {
	path := func(name string) string { return filepath.Join(root, filepath.FromSlash(name)) }
	if _, err := v0.Build(ctx, path("olm/programs"), notice); err != nil {
		return err //nolint:wrapcheck // says what it was doing
	}
	if _, err := v1.Build(ctx, path("olm/programs/v1"), notice); err != nil {
		return err //nolint:wrapcheck // says what it was doing
	}
	names, err := stage.Operators(path("olm/templates"))
	if err != nil {
		return err //nolint:wrapcheck // says what it was doing
	}
	for _, name := range names {
		project, err := sandbox.Load(ctx, path("operators/"+name))
		if err != nil {
			return err //nolint:wrapcheck // says what it was doing
		}
		if _, err := project.Build(ctx); err != nil {
			return err //nolint:wrapcheck // says what it was doing
		}
	}
	former := programs.Former{Released: path("olm/released"), Notice: notice}
	return former.Build(ctx) //nolint:wrapcheck // says what it was doing
}
