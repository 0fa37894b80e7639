// Package status writes the status of Databases. Its functions depend on their arguments alone and change nothing but the
// status.
package status
