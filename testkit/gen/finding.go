package gen

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/internal/sequence"
)

// finding is one violation and the sequence that leads to it.
type finding struct {
	oracle, message, detail string

	sequence sequence.Sequence
	deleted  bool // the violation occurs after the deletion of the custom resource
	timeline []report.Entry
}

// sameBug reports whether two findings probably have the same cause.
func (f *finding) sameBug(g *finding) bool {
	if g == nil || f.deleted != g.deleted {
		return false
	}
	differential := func(oracle string) bool { return oracle == oracleFresh || oracle == oracleRecovery }
	return f.oracle == g.oracle || differential(f.oracle) && differential(g.oracle)
}

// text formats the finding: the violation, the manifests as an applicable file, and the timeline.
func (f *finding) text(replay, how string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", f.oracle, f.message)
	for line := range strings.Lines(f.detail) {
		fmt.Fprintf(&b, "    %s", line)
	}
	fmt.Fprintf(&b, "\n%s (%s):\n\n", f.headline(), how)
	for i, m := range f.sequence {
		fmt.Fprintf(&b, "---\n# %s\n%s", f.role(i), render(m))
	}
	if f.deleted {
		b.WriteString("---\n# and then it is deleted\n")
	}
	b.WriteString("\n")
	if err := report.WriteTimeline(&b, f.timeline); err != nil {
		b.WriteString(err.Error()) // cannot fail: a Builder accepts everything
	}
	if replay != "" {
		fmt.Fprintf(&b, "\nTo run this again:\n    %s\n", replay)
	}
	return b.String()
}

func (f *finding) headline() string {
	switch n := len(f.sequence); n {
	case 1:
		return "It takes one manifest"
	default:
		return fmt.Sprintf("It takes %d manifests, one after the other", n)
	}
}

func (f *finding) role(i int) string {
	switch {
	case len(f.sequence) == 1:
		return "the custom resource is"
	case i == 0:
		return "the custom resource is at first"
	default:
		return "and then it is"
	}
}

// try applies the manifests in order and returns the violation at the last one, or nil.
func (ex *exploration) try(ctx context.Context, s sequence.Sequence, deleted bool, second recheck) (f *finding, err error) {
	if len(s) == 1 && !deleted {
		ref, err := ex.reference(ctx, s[0], quick)
		if err == nil && ref.violation != nil {
			ref, err = ex.reference(ctx, s[0], second.precision)
		}
		if err != nil || ref.violation == nil {
			return nil, err
		}
		return new(*ref.violation), nil
	}
	t, err := ex.open(ctx, "shrinking")
	defer func() {
		entries, failure := t.inner.Close()
		err = cmp.Or(err, failure)
		if f != nil {
			f.timeline = entries
			f.sequence = s
		}
	}()
	if err != nil {
		return nil, err
	}
	for i, m := range s {
		if i == len(s)-1 && !deleted {
			r, err := t.advance(ctx, m, second)
			return r.violation, err
		}
		refused, err := t.apply(m, fmt.Sprintf("apply manifest %d", i+1))
		if err != nil || refused != "" {
			return nil, err
		}
		if _, err := t.inner.WaitIdle(quickQuietPeriod); err != nil {
			return nil, err
		}
	}
	return t.end()
}

// shrink returns a smaller finding and a description of the reduction.
func (ex *exploration) shrink(ctx context.Context, f *finding) (*finding, string) {
	if ex.config.shrink <= 0 {
		return f, "not shrunk"
	}
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, ex.config.shrink)
	defer cancel()
	failed := []sequence.Sequence{f.sequence} // the smallest is last
	shrunk, err := sequence.Shrink(limited, f.sequence, func(s sequence.Sequence) bool {
		if len(failed) == 1 && len(s) == len(f.sequence) && s.String() == f.sequence.String() {
			return true // the original finding
		}
		g, err := ex.try(limited, s, f.deleted, recheck{precision: thorough, pause: ex.Options.QuietPeriod})
		if err != nil || !f.sameBug(g) {
			return false
		}
		failed = append(failed, s)
		return true
	}, sequence.ShrinkOptions{})
	if err != nil {
		return f, "not shrunk: " + err.Error()
	}
	took := time.Since(began).Round(time.Second)
	how := fmt.Sprintf("shrunk from %d in %d trials and %v", len(f.sequence), shrunk.Calls, took)
	if !shrunk.Complete {
		how += ", until the time was over"
	}
	return ex.confirm(ctx, f, failed, how)
}

// confirm repeats the smallest failed sequence with thorough checks. If it passes, confirm tries larger ones.
func (ex *exploration) confirm(ctx context.Context, f *finding, failed []sequence.Sequence, how string) (*finding, string) {
	const chances = 3
	for range min(chances, len(failed)) {
		s := failed[len(failed)-1]
		failed = failed[:len(failed)-1]
		g, err := ex.try(ctx, s, f.deleted, ex.thoroughRecheck())
		if err != nil {
			return f, "not shrunk: " + err.Error()
		}
		if f.sameBug(g) {
			return g, how
		}
	}
	return f, "not shrunk: it does not come about each time"
}

// thoroughRecheck returns the recheck for findings that are reported.
func (ex *exploration) thoroughRecheck() recheck {
	return recheck{precision: thorough, pause: ex.Options.QuietPeriod, timeout: 3 * ex.Options.QuietPeriod} // once is no proof
}

func equal(a, b *unstructured.Unstructured) bool { return render(a) == render(b) }
