// Package webhooks has the tests of explorations of an operator with admission webhooks for cluster-scoped objects.
package webhooks
