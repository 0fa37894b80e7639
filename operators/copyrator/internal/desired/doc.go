// Package desired says what follows from a CopyratorRule: which namespaces it reads and reaches, what a copy holds, and
// which of several sources of one name is copied. It is pure: it makes no request and knows no operator.
package desired
