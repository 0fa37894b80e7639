// Package program has the variable that the linker sets, as the real one does.
package program

var linkedVersion string

// Version is the one that the linker was told.
func Version() string { return linkedVersion }
