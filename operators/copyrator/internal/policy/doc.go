// Package policy evaluates CopyratorRules: the namespaces that a rule reads and writes, and the precedence among sources of
// one name. It is pure: it sends no request.
package policy
