// Package storage decides what each claim of a Database should ask for, and says how far that is. It is computed from what
// is observed alone, so that whoever was interrupted anywhere goes on where it was.
package storage

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// The reasons of the condition StorageResized.
const (
	Satisfied    = "Satisfied"             // every member has what was asked for
	Provisioning = "Provisioning"          // there are claims that have no volume yet
	Resizing     = "Resizing"              // somebody is at it
	NotSupported = "ExpansionNotSupported" // a class cannot, so it takes a person
	ResizeFailed = "ResizeFailed"          // the driver says that it cannot
)

// Request returns what a claim should ask for, if it exists and size is what is wanted. No claim becomes smaller than it is:
// less than it asked for is asked for only while it has not been granted, as after an expansion that failed. More is asked
// for if the claim has a volume, and its class can.
func Request(claim *corev1.PersistentVolumeClaim, size resource.Quantity, expandable bool) resource.Quantity {
	asked, has := Asked(claim), Capacity(claim)
	switch {
	case claim.Status.Phase != corev1.ClaimBound:
		return asked
	case size.Cmp(asked) > 0 && expandable:
		return size
	case size.Cmp(asked) < 0 && asked.Cmp(has) > 0 && size.Cmp(has) > 0:
		return size
	}
	return asked
}

// Asked is what a claim asks for.
func Asked(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	return claim.Spec.Resources.Requests[corev1.ResourceStorage]
}

// Capacity is what a claim has.
func Capacity(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	return claim.Status.Capacity[corev1.ResourceStorage]
}

// Class is the name of the class of a claim; "" if it has none.
func Class(claim *corev1.PersistentVolumeClaim) string {
	if claim.Spec.StorageClassName == nil {
		return ""
	}
	return *claim.Spec.StorageClassName
}

// Progress is how far the claims are.
type Progress struct {
	Reason  string // of the condition StorageResized
	Message string
	ByHand  bool // it takes a person
}

// Done reports whether every claim has what was asked for.
func (p Progress) Done() bool { return p.Reason == Satisfied }

// Look says how far claims are from a size. Members is how many of them have to exist, and expandable says of the name of a
// claim whether it can grow.
func Look(
	size resource.Quantity, claims []*corev1.PersistentVolumeClaim, members int, expandable func(name string) bool,
) Progress {
	var unable, failed, busy, unbound []string
	for _, c := range claims {
		has := Capacity(c)
		switch {
		case c.Status.Phase != corev1.ClaimBound:
			unbound = append(unbound, c.Name)
		case has.Cmp(size) >= 0:
		case !expandable(c.Name):
			unable = append(unable, c.Name)
		default:
			if why := failure(c); why != "" {
				failed = append(failed, c.Name+": "+why)
			} else {
				busy = append(busy, fmt.Sprintf("%s has %s%s", c.Name, has.String(), waits(c)))
			}
		}
	}
	list := func(items []string) string { slices.Sort(items); return strings.Join(items, ", ") }
	switch {
	case len(unable) > 0:
		return Progress{NotSupported, fmt.Sprintf("the class of %s does not allow expansion: copy the data into larger volumes, "+
			"for example with spec.bootstrapFrom in a new Database, or set allowVolumeExpansion in the class if its driver can",
			list(unable)), true}
	case len(failed) > 0:
		return Progress{
			ResizeFailed, list(failed) + ": see to what the driver says, or ask for less in spec.storage", false,
		}
	case len(busy) > 0:
		return Progress{Resizing, fmt.Sprintf("%s is asked for, and %s", size.String(), list(busy)), false}
	case len(unbound) > 0:
		return Progress{Provisioning, list(unbound) + " has no volume yet", false}
	case len(claims) < members:
		return Progress{Provisioning, fmt.Sprintf("%d of %d claims exist", len(claims), members), false}
	}
	return Progress{Reason: Satisfied, Message: "every member has " + size.String()}
}

// failure returns what the driver says of an expansion that failed; "" if it did not.
func failure(c *corev1.PersistentVolumeClaim) string {
	for _, condition := range c.Status.Conditions {
		switch condition.Type {
		case corev1.PersistentVolumeClaimControllerResizeError, corev1.PersistentVolumeClaimNodeResizeError:
			if condition.Status == corev1.ConditionTrue {
				return strings.TrimSpace(string(condition.Type) + " " + condition.Message)
			}
		default:
		}
	}
	switch s := c.Status.AllocatedResourceStatuses[corev1.ResourceStorage]; s {
	case corev1.PersistentVolumeClaimControllerResizeInfeasible, corev1.PersistentVolumeClaimNodeResizeInfeasible:
		return string(s)
	default:
		return ""
	}
}

// waits says what an expansion waits for, if that is known.
func waits(c *corev1.PersistentVolumeClaim) string {
	for _, condition := range c.Status.Conditions {
		if condition.Type == corev1.PersistentVolumeClaimFileSystemResizePending && condition.Status == corev1.ConditionTrue {
			return " (its node has yet to grow the file system)"
		}
	}
	return ""
}
