module github.com/homeostat-dev/homeostat/sdk/cmd/homeostat

go 1.26.0

require (
	github.com/gobuffalo/flect v1.0.3
	golang.org/x/mod v0.41.0
)
