// Package manual runs what docs/install.md says, command by command, on clusters of testkit, so that nobody is told what
// does not work.
package manual
