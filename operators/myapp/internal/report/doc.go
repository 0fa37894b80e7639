// Package report says how a MyApp is doing, from what is observed of what belongs to it.
//
// Its functions are pure but for the status that they fill in. That of the children, and the summary, is the SDK's.
package report
