package configrollout_test

import (
	"strings"
	"testing"

	"github.com/homeostat-dev/homeostat/testkit"
)

// A value of any length is told in few words: annotations have a limit in all.
func TestLongAnnotations(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(t, k)
	k.Apply(configMap("conf", "a", "1"))
	d := deployment("a", "conf", "on-failure", strings.Repeat("x", 150_000))
	adopt(k, d)
	k.Eventually(d, state("InvalidAnnotation"))
}

// A name that no object can have is told, and not asked for.
func TestNamesThatNothingCanHave(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"..", "Upper_Case", "a%2Fb"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			start(t, k)
			k.Apply(configMap("conf", "a", "1"))
			d := deployment("a", "conf", "configmaps", name)
			adopt(k, d)
			k.Eventually(d, state("InvalidAnnotation"))
		})
	}
}
