// Package storage computes the size that each claim of a Database requests and the progress of expansions. It is
// level-based: all results follow from the observed claims, so an interrupted expansion continues.
package storage

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Reasons of the condition StorageResized.
const (
	Satisfied    = "Satisfied"             // every member has the requested size
	Provisioning = "Provisioning"          // some claims have no volume yet
	Resizing     = "Resizing"              // an expansion is in progress
	NotSupported = "ExpansionNotSupported" // a class does not support it: manual action
	ResizeFailed = "ResizeFailed"          // the driver reports an error
)

// Request returns the size that an existing claim should request. It never shrinks a bound claim; it lowers the request only
// to undo an expansion that was not granted. It raises the request of a bound claim if its class supports expansion.
func Request(claim *corev1.PersistentVolumeClaim, size resource.Quantity, expandable bool) resource.Quantity {
	asked, has := Requested(claim), Capacity(claim)
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

// Requested returns the size that a claim requests.
func Requested(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	return claim.Spec.Resources.Requests[corev1.ResourceStorage]
}

// Capacity returns the size of a claim's volume.
func Capacity(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	return claim.Status.Capacity[corev1.ResourceStorage]
}

// ClassName returns the storage class of a claim; "" if it has none.
func ClassName(claim *corev1.PersistentVolumeClaim) string {
	if claim.Spec.StorageClassName == nil {
		return ""
	}
	return *claim.Spec.StorageClassName
}

// Progress is the state of an expansion.
type Progress struct {
	Reason  string // reason of the condition StorageResized
	Message string
	Manual  bool // manual action is necessary
}

// Done reports whether every claim has the requested size.
func (p Progress) Done() bool { return p.Reason == Satisfied }

// Assess compares the claims with the requested size. The argument members is the number of claims that have to exist, and
// expandable reports whether the named claim can be expanded.
func Assess(
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
				busy = append(busy, fmt.Sprintf("%s has %s%s", c.Name, has.String(), pendingNote(c)))
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

// failure returns the driver's error of a failed expansion; "" if there is none.
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

// pendingNote describes the pending step of an expansion; "" if it is unknown.
func pendingNote(c *corev1.PersistentVolumeClaim) string {
	for _, condition := range c.Status.Conditions {
		if condition.Type == corev1.PersistentVolumeClaimFileSystemResizePending && condition.Status == corev1.ConditionTrue {
			return " (its node has yet to grow the file system)"
		}
	}
	return ""
}
