// Package desired evaluates CopyratorRules: the namespaces that a rule reads and writes, the content of a copy, and the
// precedence among sources of one name. It is pure: it sends no request.
package desired
