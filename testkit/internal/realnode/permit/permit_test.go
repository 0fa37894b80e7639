package permit

import (
	"strings"
	"testing"
)

// A missing folder of images takes the place of a machine that cannot run real nodes: both are one error.
func TestRealNodes(t *testing.T) {
	missing := []string{t.TempDir() + "/none"}
	for name, test := range map[string]struct {
		variable, ci string
		skip, fail   bool
	}{
		"by default":         {skip: true},
		"in CI":              {ci: "true", fail: true},
		"required":           {variable: "1", fail: true},
		"switched off":       {variable: "0", skip: true},
		"switched off in CI": {variable: "0", ci: "true", skip: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(Variable, test.variable)
			t.Setenv("CI", test.ci)
			skip, err := RealNodes(missing)
			if (skip != nil) != test.skip || (err != nil) != test.fail {
				t.Errorf("the reason to skip is %v, and the error %v", skip, err)
			}
			for _, reason := range []error{skip, err} {
				if reason != nil && !strings.HasPrefix(reason.Error(), "real nodes ") {
					t.Errorf("the reason does not name real nodes: %v", reason)
				}
			}
		})
	}
}
