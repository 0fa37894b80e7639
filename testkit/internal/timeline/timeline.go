// Package timeline converts requests (package intercept) and states of objects (package history) into entries of a
// report.
//
// It determines the text of an entry and marks errors. Violations are found elsewhere.
package timeline

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
)

// Requests returns the entries of an operator's calls. It omits successful watches, leader election, and the recording of
// Events, which have entries of their own. offset is the time from the begin of the timeline to that of the interceptor.
func Requests(calls []intercept.Call, offset time.Duration) []report.Entry {
	entries := make([]report.Entry, 0, len(calls))
	for _, c := range calls {
		if c.Verb == "watch" && c.Code == http.StatusOK || intercept.IsLease(c.Request) || isEventWrite(c) {
			continue
		}
		entries = append(entries, request(c, offset))
	}
	return entries
}

// isEventWrite reports whether the call recorded an Event.
func isEventWrite(c intercept.Call) bool {
	return c.Resource == "events" && c.Lost == "" && c.Code < http.StatusBadRequest
}

func request(c intercept.Call, offset time.Duration) report.Entry {
	e := report.Entry{At: offset + c.Began, Lane: report.Operator, Text: c.String()}
	switch {
	case c.Lost != "":
		e.Bad = true
		e.Text = strings.TrimSuffix(c.String(), fmt.Sprintf(" -> %d", c.Code)) + " -> " + c.Lost
		if c.Reached {
			e.Text += fmt.Sprintf(" (the server had answered %d)", c.Code)
		}
	case c.Code >= http.StatusBadRequest && c.Code != http.StatusNotFound:
		e.Bad = c.Code != http.StatusConflict
		e.Detail = c.Message
	}
	if c.Process > 1 {
		e.Text = fmt.Sprintf("[process %d] %s", c.Process, e.Text)
	}
	return e
}

// Changes returns the entries of changed objects. Each lists the differences to the previous state. Objects of several
// namespaces have theirs in their names.
func Changes(changes []history.Change, began time.Time) []report.Entry {
	entries := make([]report.Entry, 0, len(changes))
	last := map[types.UID]*unstructured.Unstructured{}
	name := namer(changes)
	for _, c := range changes {
		c.Object = redactSecret(c.Object)
		e := change(c, last[c.Object.GetUID()], name(c.Object))
		last[c.Object.GetUID()] = c.Object
		e.At = c.At.Sub(began)
		entries = append(entries, e)
	}
	return entries
}

// Limits for the differences in the line of an entry: their number and their length in bytes.
const maxInline, maxInlineBytes = 3, 180

// inlineCount returns the number of differences in the line, at least 1.
func inlineCount(diffs []string) int {
	n, length := 1, len(diffs[0])
	for n < min(len(diffs), maxInline) && length+len(diffs[n]) <= maxInlineBytes {
		length += len(diffs[n])
		n++
	}
	return n
}

// namer returns the function that names objects: with their namespaces if there are several.
func namer(changes []history.Change) func(*unstructured.Unstructured) string {
	only := ""
	for _, c := range changes {
		switch namespace := c.Object.GetNamespace(); {
		case only == "":
			only = namespace
		case namespace != "" && namespace != only:
			return func(u *unstructured.Unstructured) string {
				if u.GetNamespace() == "" {
					return Name(u)
				}
				return u.GetKind() + " " + u.GetNamespace() + "/" + u.GetName()
			}
		}
	}
	return Name
}

func change(c history.Change, before *unstructured.Unstructured, name string) report.Entry {
	if c.Resource.Resource == "events" {
		return event(c.Object)
	}
	e := report.Entry{Lane: report.Cluster}
	switch {
	case c.Type == watch.Added:
		e.Text = name + " is created"
		if owner := metav1.GetControllerOf(c.Object); owner != nil {
			e.Text += fmt.Sprintf(", owned by %s %s", owner.Kind, owner.Name)
		}
		e.Detail = strings.Join(contents(c.Object), "\n")
	case c.Type == watch.Deleted:
		e.Text = name + " is gone"
	case before == nil:
		e.Text = name + " is changed"
	case before.GetDeletionTimestamp() == nil && c.Object.GetDeletionTimestamp() != nil:
		e.Text = name + " is being deleted"
		if held := c.Object.GetFinalizers(); len(held) > 0 {
			e.Text += ", held by " + strings.Join(held, ", ")
		}
	default:
		e.Text = name + " is changed"
		if diffs := differences("", before.Object, c.Object.Object, nil); len(diffs) > 0 {
			n := inlineCount(diffs)
			e.Text += ": " + strings.Join(diffs[:n], "; ")
			if len(diffs) > n {
				e.Text += fmt.Sprintf(" and %d more", len(diffs)-n)
				e.Detail = strings.Join(diffs[n:], "\n")
			}
		}
	}
	return e
}

// event returns the entry of an Event, of either API group.
func event(u *unstructured.Unstructured) report.Entry {
	text := func(fields ...string) string {
		s, _, _ := unstructured.NestedString(u.Object, fields...)
		return s
	}
	message := cmp.Or(text("message"), text("note"))
	about := "involvedObject"
	if _, ok := u.Object["regarding"]; ok {
		about = "regarding"
	}
	said := strings.TrimSpace(text("reason") + ": " + message)
	if object := strings.TrimSpace(text(about, "kind") + " " + text(about, "name")); object != "" {
		said = object + ": " + said
	}
	return report.Entry{Lane: report.Event, Text: said}
}

// Name returns the name of an object in messages, for example "Deployment web".
func Name(u *unstructured.Unstructured) string { return u.GetKind() + " " + u.GetName() }

// Describe formats an object as YAML without its managed fields, and without the values of a Secret.
func Describe(u *unstructured.Unstructured) string {
	u = redactSecret(u.DeepCopy())
	u.SetManagedFields(nil)
	data, err := yaml.Marshal(u.Object)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// Sort sorts entries of several sources by time.
func Sort(entries []report.Entry) {
	slices.SortStableFunc(entries, func(a, b report.Entry) int { return cmp.Compare(a.At, b.At) })
}
