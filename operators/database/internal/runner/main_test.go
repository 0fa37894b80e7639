package runner_test

import (
	"testing"

	"github.com/homeostat-dev/homeostat/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m, testkit.Env{Workloads: true}) }
