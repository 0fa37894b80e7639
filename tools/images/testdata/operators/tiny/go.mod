module github.com/homeostat-dev/homeostat/operators/tiny

go 1.26.0

require github.com/homeostat-dev/homeostat/sdk v0.0.0

replace github.com/homeostat-dev/homeostat/sdk => ../../sdk
