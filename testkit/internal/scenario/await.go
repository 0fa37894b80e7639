package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/readiness"
)

// pollInterval is the interval at which a Wait reads the object.
const pollInterval = 20 * time.Millisecond

// readTimeout bounds a read that begins before the timeout. On a busy machine there has to be at least one.
const readTimeout = 30 * time.Second

// await polls until the expectation is met.
func (w *Wait) await(ctx context.Context, c client.Client, namespace string) error {
	u := w.object()
	if err := localize(c, u, namespace); err != nil {
		return fmt.Errorf("waiting for %s: %w", w.Target, err)
	}
	local := *w
	local.Value = expand(w.Value, namespace)
	limited, cancel := context.WithTimeout(ctx, w.Timeout+readTimeout)
	defer cancel()
	over := time.After(w.Timeout)
	for {
		missing, err := local.read(limited, c, u)
		switch {
		case err != nil:
			return fmt.Errorf("waiting for %s: %w", w.Target, err)
		case missing == "":
			return nil
		}
		select {
		case <-time.After(pollInterval):
		case <-over:
			return fmt.Errorf("waiting for %s: not within %v: %s", w.Target, w.Timeout, missing)
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w: %s", w.Target, ctx.Err(), missing)
		}
	}
}

func (w *Wait) read(ctx context.Context, c client.Client, u *unstructured.Unstructured) (missing string, err error) {
	if w.Count != nil {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(w.Kind)
		err := c.List(ctx, list, client.InNamespace(u.GetNamespace()), client.MatchingLabels(w.Labels))
		return w.missingCount(len(list.Items)), err
	}
	err = c.Get(ctx, client.ObjectKeyFromObject(u), u)
	switch {
	case apierrors.IsNotFound(err):
		return w.missing(nil), nil
	case err != nil:
		return "", err
	default:
		return w.missing(u), nil
	}
}

// missingCount returns the difference between the number of objects and the expectation, or "" if it is met.
func (w *Wait) missingCount(n int) string {
	if n == *w.Count {
		return ""
	}
	return fmt.Sprintf("there are %d, and should be %d", n, *w.Count)
}

// missing returns the difference between the object, nil if absent, and the expectation, or "" if it is met.
func (w *Wait) missing(u *unstructured.Unstructured) string {
	exists := w.Exists != nil && w.Field == ""
	switch {
	case exists && *w.Exists != (u != nil):
		if u == nil {
			return "it does not exist"
		}
		if held := u.GetFinalizers(); len(held) > 0 {
			return fmt.Sprintf("it still exists, with the finalizers %q", held)
		}
		return "it still exists"
	case exists:
		return ""
	case u == nil:
		return "it does not exist"
	case w.Condition != "":
		return w.missingCondition(u)
	default:
		return w.missingField(u)
	}
}

func (w *Wait) missingCondition(u *unstructured.Unstructured) string {
	observed, found := readiness.ObservedGeneration(u)
	if found && observed < u.GetGeneration() {
		return fmt.Sprintf("its status is for generation %d, and the spec is at %d", observed, u.GetGeneration())
	}
	if missing := readiness.MissingCondition(u, w.Condition, w.Status); missing != "" || w.Reason == "" {
		return missing
	}
	if condition, _ := readiness.Condition(u, w.Condition); condition.Reason != w.Reason {
		return fmt.Sprintf("condition %s has the reason %s, and should have %s", w.Condition, condition.Reason, w.Reason)
	}
	return ""
}

func (w *Wait) missingField(u *unstructured.Unstructured) string {
	sets, err := w.path.FindResults(u.Object)
	if err != nil {
		return fmt.Sprintf("%s leads nowhere: %v", w.Field, err)
	}
	var values []any
	for _, set := range sets {
		for _, value := range set {
			values = append(values, value.Interface())
		}
	}
	switch {
	case w.Exists != nil && !*w.Exists && len(values) > 0:
		return w.Field + " is set, and should not be"
	case w.Exists != nil && !*w.Exists:
		return ""
	case len(values) == 0:
		return w.Field + " is not set"
	case !w.HasValue:
		return ""
	case len(values) > 1:
		return fmt.Sprintf("%s leads to %d values, and should lead to one", w.Field, len(values))
	}
	got, gotErr := json.Marshal(values[0])
	want, wantErr := json.Marshal(w.Value)
	switch {
	case errors.Join(gotErr, wantErr) != nil:
		return fmt.Sprintf("%s cannot be compared: %v", w.Field, errors.Join(gotErr, wantErr))
	case string(got) != string(want):
		return fmt.Sprintf("%s is %s, and should be %s", w.Field, got, want)
	default:
		return ""
	}
}

// Violation describes the objects of a namespace of a run that are in a state that must never exist, or returns "".
func (w *Wait) Violation(namespace string, objects []*unstructured.Unstructured) string {
	local := *w
	local.Value = expand(w.Value, namespace)
	named := w.object()
	named.Object, _ = expand(named.Object, namespace).(map[string]any)
	within := named.GetNamespace()
	if within == "" {
		within = namespace
	}
	count := 0
	for _, u := range objects {
		switch {
		case u.GroupVersionKind().GroupKind() != w.Kind.GroupKind(), u.GetNamespace() != "" && u.GetNamespace() != within:
		case w.Count != nil && labels.SelectorFromSet(w.Labels).Matches(labels.Set(u.GetLabels())):
			count++
		case w.Count == nil && u.GetName() == named.GetName() && local.missing(u) == "":
			return fmt.Sprintf("%s is in a state that is never allowed: %s", w.Target, w.state())
		}
	}
	if w.Count != nil && count == *w.Count {
		return fmt.Sprintf("there are %d objects of kind %s%s, which is never allowed", count, w.Kind.Kind, w.withLabels())
	}
	return ""
}

func (w *Wait) withLabels() string {
	if len(w.Labels) == 0 {
		return ""
	}
	return fmt.Sprintf(" with the labels %s", labels.FormatLabels(w.Labels))
}

// state describes the expectation.
func (w *Wait) state() string {
	switch {
	case w.Condition != "":
		text := fmt.Sprintf("condition %s=%s", w.Condition, w.Status)
		if w.Reason != "" {
			text += " with the reason " + w.Reason
		}
		return text
	case w.Field != "" && w.Exists != nil && !*w.Exists:
		return w.Field + " is not set"
	case w.HasValue:
		value, err := json.Marshal(w.Value)
		if err != nil {
			return fmt.Sprintf("%s is %v", w.Field, w.Value)
		}
		return fmt.Sprintf("%s is %s", w.Field, value)
	case w.Field != "":
		return w.Field + " is set"
	default:
		return "it exists"
	}
}
