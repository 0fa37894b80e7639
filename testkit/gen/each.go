package gen

import (
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/kitadapter"
)

// Each is chaos.Each: it returns an operator that the function makes anew in each run.
func Each(operator func(k *testkit.K) testkit.Runnable) testkit.Runnable {
	return kitadapter.NewEach(operator)
}
