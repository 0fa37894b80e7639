// Package ingressobjects has the objects of the Ingress controller of real nodes. It has no dependencies, because testkit
// imports it as well.
package ingressobjects

import (
	_ "embed"
	"strings"

	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/spec"
)

const (
	// Class is the name of the IngressClass, which is the default.
	Class = "standard"
	// Service is the Service of the controller, after its namespace.
	Service = "kube-system/ingress"
)

//go:embed ingress.yaml
var objects string

// Objects returns YAML with the IngressClass, the Service of the controller, and the rights of its user.
func Objects() string { return strings.ReplaceAll(objects, "HUB_ADDRESS", spec.HubAddress) }
