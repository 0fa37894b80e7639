package gen

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/internal/sequence"
)

// finding is one thing that is wrong, and how to get there.
type finding struct {
	oracle, message, detail string

	sequence sequence.Sequence
	deleted  bool // and then the custom resource is deleted
	timeline []report.Entry
}

// sameBug says that both are most likely about the same bug.
func (f *finding) sameBug(g *finding) bool {
	if g == nil || f.deleted != g.deleted {
		return false
	}
	differential := func(oracle string) bool { return oracle == oracleFresh || oracle == oracleRecovery }
	return f.oracle == g.oracle || differential(f.oracle) && differential(g.oracle)
}

// text shows the finding: what is wrong, the manifests as a file that can be applied, and what happened.
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
		b.WriteString(err.Error()) // a Builder takes everything
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

// try makes the custom resource one manifest after the other and returns what is wrong at the last, nil if nothing is.
func (ex *exploration) try(ctx context.Context, s sequence.Sequence, deleted bool, second recheck) (f *finding, _ error) {
	if len(s) == 1 && !deleted {
		ref, err := ex.reference(ctx, s[0], quick)
		if err == nil && ref.wrong != nil {
			ref, err = ex.reference(ctx, s[0], second.precision)
		}
		if err != nil || ref.wrong == nil {
			return nil, err
		}
		return new(*ref.wrong), nil
	}
	t, err := ex.open(ctx, "shrinking")
	defer func() {
		entries := t.inner.Close()
		if f != nil {
			f.timeline, f.sequence = entries, s
		}
	}()
	if err != nil {
		return nil, err
	}
	for i, m := range s {
		if i == len(s)-1 && !deleted {
			r, err := t.advance(ctx, m, second)
			return r.wrong, err
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

// shrink makes what was found smaller, and says what came of that.
func (ex *exploration) shrink(ctx context.Context, f *finding) (*finding, string) {
	if ex.config.shrink <= 0 {
		return f, "not shrunk"
	}
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, ex.config.shrink)
	defer cancel()
	failed := []sequence.Sequence{f.sequence} // the smallest last
	shrunk, err := sequence.Shrink(limited, f.sequence, func(s sequence.Sequence) bool {
		if len(failed) == 1 && len(s) == len(f.sequence) && s.String() == f.sequence.String() {
			return true // that is how it was found
		}
		g, err := ex.try(limited, s, f.deleted, recheck{precision: thorough, pause: ex.Options.Rest})
		if err != nil || !f.sameBug(g) {
			return false
		}
		failed = append(failed, s)
		return true
	}, sequence.Shrinking{})
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

// confirm looks with care at the smallest sequence that failed or, if it does not fail now, at one before.
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

// thoroughRecheck is how a finding is looked at that is going to be reported.
func (ex *exploration) thoroughRecheck() recheck {
	return recheck{precision: thorough, pause: ex.Options.Rest, timeout: 3 * ex.Options.Rest} //nolint:mnd // once is no proof
}

func equal(a, b *unstructured.Unstructured) bool { return render(a) == render(b) }
