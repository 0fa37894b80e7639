// Package manual runs the commands of docs/install.md on clusters of testkit, so that the page contains no command that
// fails.
package manual
