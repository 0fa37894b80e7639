module github.com/homeostat-dev/homeostat/sdk

go 1.26.0
