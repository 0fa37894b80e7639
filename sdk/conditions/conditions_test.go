package conditions_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// thing is a minimal API object with conditions.
type thing struct {
	metav1.ObjectMeta

	Status conditions.Status
}

func (t *thing) CommonStatus() *conditions.Status { return &t.Status }

func at(generation int64) *thing {
	return &thing{ObjectMeta: metav1.ObjectMeta{Generation: generation}}
}

func condition(conditionType, status, reason, message string, generation int64) metav1.Condition {
	return metav1.Condition{
		Type: conditionType, Status: metav1.ConditionStatus(status), Reason: reason, Message: message,
		ObservedGeneration: generation,
	}
}

func TestMarks(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason string
		mark   func(*thing)
		want   []metav1.Condition
	}{
		"ready": {
			reason: "only Ready is True",
			mark:   func(o *thing) { conditions.MarkReady(o, "2 replicas") },
			want: []metav1.Condition{
				condition("Ready", "True", "Succeeded", "2 replicas", 3),
				condition("Reconciling", "False", "Succeeded", "", 3),
				condition("Stalled", "False", "Succeeded", "", 3),
			},
		},
		"reconciling": {
			reason: "Ready and Reconciling have the reason",
			mark:   func(o *thing) { conditions.MarkReconciling(o, "Progressing", "1 of 2") },
			want: []metav1.Condition{
				condition("Ready", "False", "Progressing", "1 of 2", 3),
				condition("Reconciling", "True", "Progressing", "1 of 2", 3),
				condition("Stalled", "False", "Reconciling", "", 3),
			},
		},
		"stalled": {
			reason: "Ready and Stalled have the reason, and Reconciling is False",
			mark:   func(o *thing) { conditions.MarkStalled(o, "BadImage", "fix it") },
			want: []metav1.Condition{
				condition("Ready", "False", "BadImage", "fix it", 3),
				condition("Reconciling", "False", "Stalled", "", 3),
				condition("Stalled", "True", "BadImage", "fix it", 3),
			},
		},
		"suspended": {
			reason: "neither ready nor reconciling",
			mark:   func(o *thing) { conditions.MarkSuspended(o, "Hibernated", "on request") },
			want: []metav1.Condition{
				condition("Ready", "False", "Hibernated", "on request", 3),
				condition("Reconciling", "False", "Hibernated", "", 3),
				condition("Stalled", "False", "Hibernated", "", 3),
			},
		},
		"retrying a ready object": {
			reason: "a transient failure does not take a working object out of service",
			mark: func(o *thing) {
				conditions.MarkReady(o, "works")
				conditions.MarkRetrying(o, "Timeout", "again soon")
			},
			want: []metav1.Condition{
				condition("Ready", "True", "Succeeded", "works", 3),
				condition("Reconciling", "True", "Timeout", "again soon", 3),
				condition("Stalled", "False", "Reconciling", "", 3),
			},
		},
		"retrying an object that was ready before a change": {
			reason: "a condition of an older generation does not count",
			mark: func(o *thing) {
				o.Generation = 2
				conditions.MarkReady(o, "works")
				o.Generation = 3
				conditions.MarkRetrying(o, "Timeout", "again soon")
			},
			want: []metav1.Condition{
				condition("Ready", "False", "Timeout", "again soon", 3),
				condition("Reconciling", "True", "Timeout", "again soon", 3),
				condition("Stalled", "False", "Reconciling", "", 3),
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := at(3)
			test.mark(o)
			ignore := cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime")
			if diff := cmp.Diff(test.want, o.Status.Conditions, ignore); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.reason, diff)
			}
			if o.Status.ObservedGeneration != 3 {
				t.Errorf("observedGeneration is %d, want 3", o.Status.ObservedGeneration)
			}
		})
	}
}

func TestTransitionTime(t *testing.T) {
	t.Parallel()
	o := at(1)
	conditions.MarkReconciling(o, "Progressing", "1 of 2")
	past := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	for i := range o.Status.Conditions {
		o.Status.Conditions[i].LastTransitionTime = past
	}
	o.Generation = 2
	conditions.MarkReconciling(o, "StillProgressing", "none of 2")
	for _, c := range o.Status.Conditions {
		if !c.LastTransitionTime.Equal(&past) {
			t.Errorf("the time of %s changed although its status did not", c.Type)
		}
	}
	conditions.MarkReady(o, "")
	for _, c := range o.Status.Conditions {
		if moved := !c.LastTransitionTime.Equal(&past); moved != (c.Type != conditions.Stalled) {
			t.Errorf("the time of %s changed: %t; Ready and Reconciling changed, Stalled did not", c.Type, moved)
		}
	}
}

func TestIsTrueOfTheCurrentGenerationOnly(t *testing.T) {
	t.Parallel()
	o := at(1)
	conditions.MarkReady(o, "")
	if !conditions.IsTrue(o, conditions.Ready) {
		t.Error("Ready was just set and is not true")
	}
	o.Generation = 2
	if conditions.IsTrue(o, conditions.Ready) {
		t.Error("Ready of generation 1 counts for generation 2")
	}
	if conditions.IsTrue(o, "Unknown") {
		t.Error("a missing condition is true")
	}
}

func TestSetReportsChanges(t *testing.T) {
	t.Parallel()
	o := at(1)
	set := func(message string) bool { return conditions.Set(o, "Backed", metav1.ConditionTrue, "Done", message) }
	if !set("once") || set("once") || !set("twice") {
		t.Error("Set must report a change if and only if there was one")
	}
	if !conditions.Remove(o, "Backed") || conditions.Remove(o, "Backed") || conditions.Get(o, "Backed") != nil {
		t.Error("Remove must drop the condition and report that it was there")
	}
}

func TestMessagesAreBounded(t *testing.T) {
	t.Parallel()
	for name, message := range map[string]string{
		"long":              strings.Repeat("x", 5000),
		"cut inside a rune": strings.Repeat("ä", 3000),
		"invalid UTF-8":     string([]byte{'a', 0xff, 'b'}),
		"maximum length":    strings.Repeat("x", conditions.MaxMessage),
		"one byte too long": strings.Repeat("x", conditions.MaxMessage+1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := at(1)
			conditions.MarkStalled(o, "Long", message)
			got := conditions.Get(o, conditions.Stalled).Message
			if len(got) > conditions.MaxMessage || !utf8.ValidString(got) {
				t.Errorf("%d bytes, valid UTF-8: %t", len(got), utf8.ValidString(got))
			}
			if len(message) <= conditions.MaxMessage && utf8.ValidString(message) && got != message {
				t.Error("a message that fits was changed")
			}
			if len(message) > conditions.MaxMessage && !strings.HasSuffix(got, "...") {
				t.Error("a truncated message has no ellipsis")
			}
		})
	}
}
