package validity

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Count is a validator that delegates to another one and counts its answers. It must not be copied.
type Count struct {
	// Validator gives the answers.
	Validator Validator

	mu         sync.Mutex
	valid      int
	rejected   int
	rejections map[rejectionKey]*Rejection
}

// A Rejection is the number of objects that were rejected for one field and reason.
type Rejection struct {
	// Field is the invalid field, with [*] for any item. It is empty if the server did not name one.
	Field string
	// Reason is the kind of mistake.
	Reason string
	// Objects is the number of objects rejected for it.
	Objects int
	// Sentence is the message for the first of them.
	Sentence string
}

type rejectionKey struct{ field, reason string }

// items matches list indexes, which differ from object to object.
var items = regexp.MustCompile(`\[\d+\]`)

// Validate delegates and counts. An error of the validator is not counted.
func (c *Count) Validate(ctx context.Context, from, to *unstructured.Unstructured) (Verdict, error) {
	verdict, err := c.Validator.Validate(ctx, from, to)
	if err != nil {
		return verdict, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if verdict.Valid {
		c.valid++
		return verdict, nil
	}
	c.rejected++
	seen := map[rejectionKey]bool{}
	for _, cause := range verdict.Causes {
		at := rejectionKey{items.ReplaceAllString(cause.Field, "[*]"), cause.Reason}
		if !seen[at] {
			c.add(at, verdict.Sentence)
		}
		seen[at] = true
	}
	return verdict, nil
}

func (c *Count) add(at rejectionKey, sentence string) {
	if c.rejections == nil {
		c.rejections = map[rejectionKey]*Rejection{}
	}
	entry, ok := c.rejections[at]
	if !ok {
		entry = &Rejection{Field: at.field, Reason: at.reason, Sentence: sentence}
		c.rejections[at] = entry
	}
	entry.Objects++
}

// Valid returns the number of valid objects.
func (c *Count) Valid() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.valid
}

// Rejected returns the number of rejected objects. One object may be counted in several Refusals.
func (c *Count) Rejected() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rejected
}

// Rejections returns the rejections so far, the most frequent first.
func (c *Count) Rejections() []Rejection {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]Rejection, 0, len(c.rejections))
	for _, r := range c.rejections {
		all = append(all, *r)
	}
	slices.SortFunc(all, func(a, b Rejection) int {
		return cmp.Or(b.Objects-a.Objects, strings.Compare(a.Field, b.Field), strings.Compare(a.Reason, b.Reason))
	})
	return all
}

// String formats the counts as a table.
func (c *Count) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d valid, %d refused", c.Valid(), c.Rejected())
	for _, r := range c.Rejections() {
		fmt.Fprintf(&b, "\n%6d  %s  %s: %s", r.Objects, cmp.Or(r.Field, "(no field)"), r.Reason, r.Sentence)
	}
	return b.String()
}
