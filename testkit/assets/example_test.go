package assets_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/assets"
)

// Find returns the first source that has all needed programs. Here these are in a folder of the user's choice, as for
// controller-runtime's envtest.
func ExampleFind() {
	dir, err := os.MkdirTemp("", "assets")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	need := []string{assets.Etcd, assets.APIServer}
	for _, program := range need {
		if err := os.WriteFile(filepath.Join(dir, program), nil, 0o700); err != nil {
			fmt.Println(err)
			return
		}
	}
	set, err := assets.Find(context.Background(), assets.Options{
		Programs: need, CacheDir: filepath.Join(dir, "cache"),
		Env: func(name string) string { return map[string]string{assets.EnvDir: dir}[name] },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(set.Origin, set.Dir == dir)
	fmt.Println(filepath.Base(set.Path(assets.APIServer)))
	// Output:
	// KUBEBUILDER_ASSETS true
	// kube-apiserver
}

// A CI job without access to the network allows only the sources that need none. The error then names the reason of
// each source.
func ExampleFind_offline() {
	dir, err := os.MkdirTemp("", "assets")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	_, err = assets.Find(context.Background(), assets.Options{
		Programs: []string{assets.Kubectl}, CacheDir: dir,
		Env: func(name string) string { return map[string]string{assets.EnvSources: "environment,cache"}[name] },
	})
	fmt.Println(strings.ReplaceAll(err.Error(), "; ", "\n"))
	// Output:
	// finding a control plane: no source has kubectl (environment: KUBEBUILDER_ASSETS is not set
	// cache: nothing was built or downloaded yet)
}

// Print writes the progress of a search for people. It is throttled unless the writer is a terminal.
func ExamplePrint() {
	progress := assets.Print(os.Stdout)
	for second := range 20 {
		progress(assets.Progress{
			Phase: "compiling packages", Done: 100 * second, Total: 2500, Elapsed: time.Duration(second) * time.Second,
		})
	}
	progress(assets.Progress{Notice: "the control plane is ready", Elapsed: 20 * time.Second, Final: true})
	// Output:
	// [    0s] compiling packages: 0 of at most 2500
	// [   15s] compiling packages: 1500 of at most 2500
	// [   20s] the control plane is ready
}
