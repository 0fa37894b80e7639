package testkit

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/homeostat-dev/homeostat/testkit/internal/rbac"
)

// NoUnusedRules fails the test if Env.RBAC grants a permission that the operators started so far have not used, apart
// from those in Env.AllowedUnusedRules. It always reports wildcards. Env.NoUnusedRules does the same for all tests of a
// package together.
func (k *K) NoUnusedRules() {
	k.t.Helper()
	if k.conn.policy == nil {
		k.t.Fatal("looking for unused rules: Env.RBAC is empty")
	}
	if message := k.conn.env.unusedRules(k.conn.policy, &k.usage, "this test"); message != "" {
		k.t.Error(message)
	}
}

// errNoPolicy reports a contradiction in an Env.
var errNoPolicy = errors.New("finding rules that are not used: Env.NoUnusedRules needs Env.RBAC")

// checkRules prints the findings of Env.NoUnusedRules to w and returns false if there are any. It checks nothing if
// only some of the tests ran.
func (e *Env) checkRules(w io.Writer) bool {
	if !e.NoUnusedRules || !wholePackage() {
		return true
	}
	message := errNoPolicy.Error()
	policy, err := e.policy()
	switch {
	case err != nil:
		message = err.Error()
	case policy != nil:
		message = e.unusedRules(policy, &shared.usage, "this package's tests")
	}
	if message != "" {
		_, _ = fmt.Fprintln(w, "testkit:", message)
	}
	return message == ""
}

// unusedRules returns the unused permissions and advice, or "" if all were used.
func (e *Env) unusedRules(policy *rbac.Policy, usage *rbac.Usage, by string) string {
	excused := e.AllowedUnusedRules
	isChecked, err := e.isChecked()
	if err != nil {
		return err.Error()
	}
	var lines []string
	for _, f := range policy.Unused(usage) {
		if _, ok := excused[f.Right]; !ok && isChecked(f.Right) {
			lines = append(lines, "  "+f.String())
		}
	}
	message := ""
	if len(lines) > 0 {
		message = fmt.Sprintf("Env.RBAC grants rights that the operators of %s do not need:\n%s\nRemove them, test what needs "+
			"them, or say in Env.AllowedUnusedRules, by these names, why they are shipped.", by, strings.Join(lines, "\n"))
	}
	rights := policy.Rights()
	for _, right := range slices.Sorted(maps.Keys(excused)) {
		switch {
		case !slices.Contains(rights, right):
			message += fmt.Sprintf("\nEnv.AllowedUnusedRules excuses %q, which Env.RBAC does not grant: remove it.", right)
		case strings.TrimSpace(excused[right]) == "":
			message += fmt.Sprintf("\nEnv.AllowedUnusedRules excuses %q without a reason: say why it is shipped.", right)
		}
	}
	return strings.TrimSpace(message)
}

// isChecked returns the function that reports whether NoUnusedRules checks a permission.
func (e *Env) isChecked() (func(right string) bool, error) {
	if e.Rights == "" {
		return func(string) bool { return true }, nil
	}
	source, err := os.ReadFile(e.Rights)
	if err != nil {
		return nil, fmt.Errorf("reading Env.Rights: %w", err)
	}
	marked := rbac.Marked(source)
	if len(marked) == 0 {
		return nil, fmt.Errorf("Env.Rights: %s has no marker +kubebuilder:rbac", e.Rights)
	}
	return func(right string) bool { return slices.Contains(marked, right) }, nil
}

// wholePackage reports whether all tests of the package were selected.
func wholePackage() bool {
	for _, name := range []string{"run", "skip", "list", "fuzz", "fuzzworker"} {
		f := flag.Lookup("test." + name)
		if f != nil && f.Value.String() != f.DefValue {
			return false
		}
	}
	// On an existing cluster tests that need a private control plane are skipped.
	return !testing.Short() && os.Getenv(existingVariable) == ""
}
