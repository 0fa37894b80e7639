// Package permit decides whether a test may use real nodes.
package permit

import (
	"errors"
	"fmt"
	"os"

	"github.com/homeostat-dev/homeostat/testkit/cluster"
)

// Variable is the environment variable that decides about tests with real nodes. "0" skips them, and "1" fails them where
// they cannot run. Otherwise they are skipped there, or fail if the environment variable CI is set.
const Variable = "TESTKIT_NODES"

// RealNodes decides whether a test may use real nodes with the images of some folders. It returns the reason to skip the
// test, or the error to fail it with, or neither.
func RealNodes(images []string) (skip, err error) {
	if os.Getenv(Variable) == "0" {
		return errors.New("real nodes are not tested with " + Variable + "=0"), nil
	}
	missing := cluster.CheckReal()
	for _, dir := range images {
		if _, err := os.Stat(dir); err != nil && missing == nil {
			missing = fmt.Errorf("real nodes need the folder of their images: %w", err)
		}
	}
	if os.Getenv(Variable) == "1" || os.Getenv("CI") != "" {
		return nil, missing
	}
	return missing, nil
}
