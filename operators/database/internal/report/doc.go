// Package report fills in the status of Databases from what is observed. Its functions are pure but for the status that they
// write.
package report
