module github.com/homeostat-dev/homeostat/sdk/cmd/homeostat

go 1.26.0

require (
	github.com/gobuffalo/flect v1.0.3
	github.com/google/go-cmp v0.7.0
	golang.org/x/mod v0.38.0
	sigs.k8s.io/yaml v1.6.0
)

require (
	github.com/stretchr/testify v1.12.1 // indirect
	go.yaml.in/yaml/v2 v2.4.4 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)
