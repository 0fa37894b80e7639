package cluster

import "testing"

func TestInitialUserNamespace(t *testing.T) {
	t.Parallel()
	for users, want := range map[string]bool{
		"         0          0 4294967295\n":                              true,
		"         0          0          1\n":                              false, // unshare -Ur
		"         0       1000          1\n         1     100000 65536\n": false, // a container without root
	} {
		if isInitial(users) != want {
			t.Errorf("isInitial(%q) = %v", users, !want)
		}
	}
}
