module github.com/tidemq/tidemq

go 1.26
