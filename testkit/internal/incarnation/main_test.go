package incarnation_test

import (
	"os"
	"testing"
)

// This binary is also the parent of an operator, which a test kills.
const (
	roleVariable = "INCARNATION_TEST_ROLE"
	roleParent   = "parent"
)

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) == roleParent {
		beParent()
	}
	os.Exit(m.Run())
}
