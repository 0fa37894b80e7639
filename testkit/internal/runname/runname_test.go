package runname_test

import (
	"strings"
	"testing"

	"github.com/homeostat-dev/homeostat/testkit/internal/runname"
)

func TestNew(t *testing.T) {
	t.Parallel()
	for of, prefix := range map[string]string{
		"TestX/a_b":                         "testx-a-b-run-",
		"none/1":                            "none-1-run-",
		"crash-after/x":                     "crash-after-x-run-",
		strings.Repeat("long name/", 9):     "long-name-long-name-long-name-long-n-run-",
		"/" + strings.Repeat("z", 40) + "/": strings.Repeat("z", 35) + "-run-",
	} {
		name := runname.New(of)
		if !strings.HasPrefix(name, prefix) || len(name) != len(prefix)+8 {
			t.Errorf("New(%q) is %q, want a name with the prefix %q", of, name, prefix)
		}
	}
}

func TestIsOfAnother(t *testing.T) {
	t.Parallel()
	own, other := runname.New("own"), runname.New("other")
	for name, want := range map[string]bool{
		own: false, own + "-copies": false, "team-" + own: false,
		other: true, other + "-copies": true, "team-" + other: true,
		"copy-of-" + other + "-for-" + own: false,
		"default":                          false, "kube-system": false,
		"pvc-1a2b3c4d-0000-4000-8000-123456789abc": false,
	} {
		if got := runname.IsOfAnother(name, own); got != want {
			t.Errorf("IsOfAnother(%q, %q) is %v", name, own, got)
		}
	}
}

func TestExpand(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                           "",
		"{namespace}":                "ns",
		"a-{namespace}-b":            "a-ns-b",
		"{namespace:a},{namespace}":  "ns-a,ns",
		"{namespaces} {port} {other": "{namespaces} {port} {other",
	} {
		if got := runname.Expand(text, "ns"); got != want {
			t.Errorf("Expand(%q) is %q, want %q", text, got, want)
		}
	}
	if got := strings.Join(runname.Mentioned("{namespace:a} {namespace} x{namespace:b-c}"), " "); got != "a b-c" {
		t.Errorf("Mentioned returns %q", got)
	}
	if n := len(runname.Further(runname.New(strings.Repeat("x", 99)), strings.Repeat("y", runname.MaxFurther))); n != 63 {
		t.Errorf("the longest name of a further namespace has %d characters, want 63", n)
	}
}
