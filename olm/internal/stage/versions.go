package stage

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/blang/semver/v4"

	"github.com/homeostat-dev/homeostat/bundle"
)

// Versions are those that tests upgrade from and to.
type Versions struct {
	// Previous is the last version that was released before Current.
	Previous string
	// Current is that of the bundles as they are now.
	Current string
	// Broken and Repaired would come after it.
	Broken, Repaired string
}

// NewVersions finds out the versions of all operators, which are the same for each, in the folders with the bundles that
// were released, and with those of now.
func NewVersions(released, bundles string) (Versions, error) {
	current, err := lastOf(filepath.Join(bundles, "*", "manifests"), func(dir string) (string, error) {
		return bundle.Version(filepath.Dir(dir)) //nolint:wrapcheck // lastOf says where
	}, nil)
	if err != nil {
		return Versions{}, err
	}
	previous, err := lastOf(filepath.Join(released, "*", "v*"), func(dir string) (string, error) {
		return filepath.Base(dir)[1:], nil
	}, &current)
	if err != nil {
		return Versions{}, err
	}
	next := semver.Version{Major: current.Major, Minor: current.Minor + 1}
	versions := Versions{Previous: previous.String(), Current: current.String(), Broken: next.String()}
	next.Patch++
	versions.Repaired = next.String()
	return versions, nil
}

// lastOf returns the highest version below a limit, if there is one.
func lastOf(pattern string, version func(dir string) (string, error), below *semver.Version) (semver.Version, error) {
	dirs, err := filepath.Glob(pattern)
	var last semver.Version
	found := false
	for _, dir := range dirs {
		var text string
		var v semver.Version
		if text, err = version(dir); err == nil {
			v, err = semver.Parse(text)
		}
		if err != nil {
			return last, fmt.Errorf("the version of %s: %w", dir, err)
		}
		if (below == nil || v.LT(*below)) && (!found || v.GT(last)) {
			last, found = v, true
		}
	}
	if err != nil || !found {
		return last, errors.Join(err, fmt.Errorf("there is no bundle to begin with in %s", pattern))
	}
	return last, nil
}
