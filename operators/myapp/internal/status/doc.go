// Package status fills in the status of a MyApp from the observed children.
//
// Its functions have no other effect. The SDK writes the status of the children and the conditions that every object has.
package status
