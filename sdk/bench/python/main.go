// Command python is the candidate that uses the engine of the SDK with a function in Python. It runs in the repository's
// root folder, where it finds the package for Python.
package main

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"

	"github.com/homeostat-dev/homeostat/sdk/bench/work"
	"github.com/homeostat-dev/homeostat/sdk/function"
	"github.com/homeostat-dev/homeostat/sdk/program"
)

//go:embed bench.py
var code string

func main() {
	work.EnableProfiling()
	library, err := filepath.Abs("sdk/python")
	if err == nil {
		_, err = os.Stat(filepath.Join(library, "homeostat"))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "finding the package for Python: %s: run this in the root folder of the repository\n", err)
		os.Exit(1)
	}
	program.Main(&function.Operator{
		Config: function.Config{
			Version: 1, Name: "bench",
			Kind: function.Kind{APIVersion: work.GroupVersion.String(), Kind: "Database"},
			Owns: []function.OwnedKind{
				owned("apps/v1", "StatefulSet"), owned("v1", "Service"), owned("v1", "PersistentVolumeClaim"),
				owned("batch/v1", "CronJob"),
			},
		},
		Function: &function.Process{Command: []string{"python3", "-c", code}, Env: []string{"PYTHONPATH=" + library}},
	})
}

func owned(apiVersion, kind string) function.OwnedKind {
	return function.OwnedKind{Kind: function.Kind{APIVersion: apiVersion, Kind: kind}}
}
