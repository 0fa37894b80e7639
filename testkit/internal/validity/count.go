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

// Count is an oracle that asks another one and counts what it says. It must not be copied.
type Count struct {
	// Validator is whom it asks.
	Oracle Validator

	mu       sync.Mutex
	valid    int
	refused  int
	refusals map[place]*Rejection
}

// A Refusal is how often a field was refused for a reason.
type Rejection struct {
	// Field is what was wrong, with [*] for any item. It is empty if nobody said.
	Field string
	// Reason is the kind of mistake.
	Reason string
	// Objects is how many objects were refused for it.
	Objects int
	// Sentence is what was said of the first of them.
	Sentence string
}

type place struct{ field, reason string }

// items are places in lists, which differ from object to object.
var items = regexp.MustCompile(`\[\d+\]`)

// Judge asks and counts. What the oracle has no answer for is not counted.
func (c *Count) Judge(ctx context.Context, from, to *unstructured.Unstructured) (Verdict, error) {
	verdict, err := c.Oracle.Judge(ctx, from, to)
	if err != nil {
		return verdict, err //nolint:wrapcheck // it adds nothing to what the oracle says
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if verdict.Valid {
		c.valid++
		return verdict, nil
	}
	c.refused++
	seen := map[place]bool{}
	for _, cause := range verdict.Causes {
		at := place{items.ReplaceAllString(cause.Field, "[*]"), cause.Reason}
		if !seen[at] {
			c.add(at, verdict.Sentence)
		}
		seen[at] = true
	}
	return verdict, nil
}

func (c *Count) add(at place, sentence string) {
	if c.refusals == nil {
		c.refusals = map[place]*Rejection{}
	}
	refusal, ok := c.refusals[at]
	if !ok {
		refusal = &Rejection{Field: at.field, Reason: at.reason, Sentence: sentence}
		c.refusals[at] = refusal
	}
	refusal.Objects++
}

// Valid is how many objects were valid.
func (c *Count) Valid() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.valid
}

// Refused is how many objects were refused. One may be among several Refusals.
func (c *Count) Refused() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused
}

// Refusals are those so far, the most frequent first.
func (c *Count) Refusals() []Rejection {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]Rejection, 0, len(c.refusals))
	for _, r := range c.refusals {
		all = append(all, *r)
	}
	slices.SortFunc(all, func(a, b Rejection) int {
		return cmp.Or(b.Objects-a.Objects, strings.Compare(a.Field, b.Field), strings.Compare(a.Reason, b.Reason))
	})
	return all
}

// String is a table for people.
func (c *Count) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d valid, %d refused", c.Valid(), c.Refused())
	for _, r := range c.Refusals() {
		fmt.Fprintf(&b, "\n%6d  %s  %s: %s", r.Objects, cmp.Or(r.Field, "(no field)"), r.Reason, r.Sentence)
	}
	return b.String()
}
