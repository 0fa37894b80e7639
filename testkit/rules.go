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

// NoUnusedRules fails the test if the operators that it has started so far have not made use of each right that Env.RBAC
// grants, apart from those in Env.Unexercised. Wildcards are always named. For all tests of a package together there is
// Env.NoUnusedRules.
func (k *K) NoUnusedRules() {
	k.t.Helper()
	if k.conn.policy == nil {
		k.t.Fatal("looking for unused rules: Env.RBAC is empty")
	}
	if said := unusedRules(k.conn.policy, &k.usage, k.conn.env.Unexercised, "this test"); said != "" {
		k.t.Error(said)
	}
}

// errNoPolicy is a mistake in an Env.
var errNoPolicy = errors.New("finding rules that are not used: Env.NoUnusedRules needs Env.RBAC")

// checkRules says to w what Env.NoUnusedRules finds, and reports whether all is well. It has nothing to say if only some of
// the tests ran.
func (e *Env) checkRules(w io.Writer) bool {
	if !e.NoUnusedRules || !wholePackage() {
		return true
	}
	said := errNoPolicy.Error()
	policy, err := e.policy()
	switch {
	case err != nil:
		said = err.Error()
	case policy != nil:
		said = unusedRules(policy, &shared.usage, e.Unexercised, "this package's tests")
	}
	if said != "" {
		_, _ = fmt.Fprintln(w, "testkit:", said)
	}
	return said == ""
}

// unusedRules says which of the rights were not used, and how to go on.
func unusedRules(policy *rbac.Policy, usage *rbac.Usage, excused map[string]string, by string) string {
	var lines []string
	for _, f := range policy.Unused(usage) {
		if _, ok := excused[f.Right]; !ok {
			lines = append(lines, "  "+f.String())
		}
	}
	said := ""
	if len(lines) > 0 {
		said = fmt.Sprintf("Env.RBAC grants rights that the operators of %s do not need:\n%s\nRemove them, test what needs "+
			"them, or say in Env.Unexercised, by these names, why they are shipped.", by, strings.Join(lines, "\n"))
	}
	rights := policy.Rights()
	for _, right := range slices.Sorted(maps.Keys(excused)) {
		switch {
		case !slices.Contains(rights, right):
			said += fmt.Sprintf("\nEnv.Unexercised excuses %q, which Env.RBAC does not grant: remove it.", right)
		case strings.TrimSpace(excused[right]) == "":
			said += fmt.Sprintf("\nEnv.Unexercised excuses %q without a reason: say why it is shipped.", right)
		}
	}
	return strings.TrimSpace(said)
}

// wholePackage reports whether all tests of the package were asked for.
func wholePackage() bool {
	for _, name := range []string{"run", "skip", "list", "fuzz", "fuzzworker"} {
		f := flag.Lookup("test." + name)
		if f != nil && f.Value.String() != f.DefValue {
			return false
		}
	}
	// On a cluster of somebody else tests that need one of their own are skipped.
	return !testing.Short() && os.Getenv(existingVariable) == ""
}
