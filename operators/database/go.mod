module github.com/homeostat-dev/homeostat/operators/database

go 1.26.0
