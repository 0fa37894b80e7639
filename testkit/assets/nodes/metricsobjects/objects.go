// Package metricsobjects has the objects of the metrics API of real nodes. It has no dependencies, because testkit imports
// it as well.
package metricsobjects

import (
	_ "embed"
	"strconv"
	"strings"

	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/spec"
)

// Rights has YAML with the rights of the server's user. The server needs them when it starts.
//
//go:embed rights.yaml
var Rights string

//go:embed service.yaml
var service string

// Service returns YAML with the metrics API and its Service. Without the server, discovery of the API server is incomplete.
func Service() string {
	return strings.NewReplacer("ADDRESS", spec.HubAddress, "PORT", strconv.Itoa(spec.MetricsPort)).Replace(service)
}
