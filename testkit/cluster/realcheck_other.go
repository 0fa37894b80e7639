//go:build !linux

package cluster

import "errors"

// CheckReal returns an error that names what is missing on this machine for the Real tier.
func CheckReal() error { return errors.New("real nodes need Linux") }

func removeCgroups(string) error { return nil }
