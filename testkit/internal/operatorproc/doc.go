// Package operatorproc runs an operator's command as a process, so that an operator in any language can be killed and
// started again.
//
// A process is the process group of one command. Its cluster and namespace are given by the caller, regardless of the
// environment. Its output is reported line by line. The whole group, grandchildren included, ends with the command or
// with this process. Daemons, which leave the group, are an exception.
//
// The package does not restart anything. It does not support Windows, because its process groups differ.
package operatorproc
