package sandbox

import "github.com/homeostat-dev/homeostat/testkit/internal/environment"

// RunHelperProcess must be the first call in main of a program that calls [Start]: the program starts itself again as
// the server process of the control plane. In that process the function does not return; in any other it does nothing.
func RunHelperProcess() { environment.RunHelperProcess() }
