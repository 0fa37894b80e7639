package cli

import (
	"context"
	"errors"
	"flag"
	"os"
	"testing/fstest"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/assets"
	"github.com/homeostat-dev/homeostat/testkit/cluster"
	"github.com/homeostat-dev/homeostat/testkit/internal/remote"
	"github.com/homeostat-dev/homeostat/testkit/internal/scenario"
)

// serve serves tests in another language on the standard streams until the standard input ends.
func (c *command) serve(ctx context.Context, args []string) error {
	var crds, rbac list
	var account string
	var workloads bool
	rest, err := c.parse("serve", args, func(f *flag.FlagSet) {
		f.Var(&crds, "crd", "")
		f.Var(&rbac, "rbac", "")
		f.StringVar(&account, "service-account", "", "")
		f.BoolVar(&workloads, "workloads", false, "")
	})
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return usagef("serve: it takes no arguments, but there is %q", rest[0])
	}
	env := testkit.Env{Workloads: workloads}
	for _, path := range crds {
		objects, err := scenario.ReadCRDs(path)
		if err != nil {
			return usagef("serve: %w", firstOf(err))
		}
		for _, u := range objects {
			env.Objects = append(env.Objects, u)
		}
	}
	if len(rbac) > 0 {
		p, err := readPolicy(rbac, account)
		if err != nil {
			return usagef("serve: %w", err)
		}
		env.FS = fstest.MapFS{policyFile: p.file}
		env.RBAC = policyFile
	}
	if os.Getenv(existingCluster) == "" {
		tier := cluster.API
		if workloads {
			tier = cluster.Workloads
		}
		// The client shows the progress of a build.
		options := assets.Options{Programs: cluster.Programs(tier), Progress: assets.Print(c.err)}
		if _, err := assets.Find(ctx, options); err != nil {
			return err
		}
	}
	closeEnv := testkit.StartEnv(env)
	defer closeEnv()
	if err := remote.Serve(ctx, os.Stdin, os.Stdout); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
