package sandbox

import "github.com/homeostat-dev/homeostat/testkit/internal/environment"

// RunHelperProcess must be the first call in main of a program that calls [Start]: the control plane is kept by a process
// of its own, which is the same program once more. In that process it does not return; in any other it does nothing.
func RunHelperProcess() { environment.RunHelperProcess() }
