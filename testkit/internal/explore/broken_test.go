package explore_test

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/internal/space"
)

// A program that cannot be started any more ends the exploration. The report has what was found before, and lists the plans
// that were not tried.
func TestProgramIsGoneInTheMiddle(t *testing.T) {
	t.Parallel()
	o := causeOptions(&causeOperator{}, "error-503")
	s := &vanishing{Subject: o.Subject}
	s.left.Store(8) // two of each run without a fault, one to learn the retry, and one
	o.Subject = s
	o.Parallel = 3
	cfg, err := testkit.Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	x, err := explore.New(t.Context(), cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	r, err := x.Run(t.Context())
	if start := new(explore.StartError); !errors.As(err, &start) {
		t.Errorf("the error is %v, want one of the start", err)
	}
	if passed := r.Count(report.Passed); passed != 4 {
		t.Errorf("%d runs passed, want 4\n%s", passed, text(t, r))
	}
	const want = "the exploration could not go on"
	i := slices.IndexFunc(r.Skipped, func(s report.Skipped) bool { return s.Reason == want })
	if i < 0 || len(r.Skipped[i].Plans) < 2 {
		t.Errorf("skipped are %v, want several because %s", r.Skipped, want)
	}
}

// vanishing is a program that can be started only so many times.
type vanishing struct {
	explore.Subject

	left atomic.Int64
}

func (v *vanishing) Start(s *space.Space, how explore.Start) (explore.Process, error) {
	if v.left.Add(-1) < 0 {
		return nil, &explore.StartError{Err: errors.New("there is no such program")}
	}
	return v.Subject.Start(s, how)
}
