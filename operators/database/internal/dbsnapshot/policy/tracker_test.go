package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/dbsnapshot/policy"
	"github.com/homeostat-dev/homeostat/operators/database/internal/dbsnapshot/status"
	"github.com/homeostat-dev/homeostat/operators/database/internal/schedule"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// made is the creation time of each test's object.
var made = time.Date(2026, time.January, 1, 0, 0, 30, 0, time.UTC)

// simulation replaces the operator and the API server: it keeps the status between reconciles.
type simulation struct {
	t   *testing.T
	o   *v1.DBSnapshot
	now time.Time
}

func newSimulation(t *testing.T, text string) *simulation {
	t.Helper()
	return &simulation{t, &v1.DBSnapshot{
		ObjectMeta: metav1.ObjectMeta{Name: "a", CreationTimestamp: metav1.NewTime(made)},
		Spec: v1.DBSnapshotSpec{
			Schedule: text, TimeZone: "UTC", StartingDeadlineSeconds: 3600, ActiveDeadlineSeconds: 7200,
			Retention: v1.SnapshotRetention{KeepLast: 2},
		},
	}, made}
}

// reconcile simulates a reconcile after some time, with this state of the running copy.
func (s *simulation) reconcile(after time.Duration, a policy.Attempt) *policy.Tracker {
	s.t.Helper()
	s.now = s.now.Add(after)
	l := s.tracker()
	if s.o.Status.Active != nil {
		l.Observe(a)
	}
	l.TakeDue()
	if policy.RetentionPending(s.o) {
		l.RecordRetention(policy.Prunable(s.o, s.now), nil)
	}
	status.Set(l)
	for i := range s.o.Status.Conditions { // conditions have the system time
		s.o.Status.Conditions[i].LastTransitionTime = metav1.NewTime(made)
	}
	return l
}

func (s *simulation) tracker() *policy.Tracker {
	s.t.Helper()
	l := &policy.Tracker{Object: s.o, Now: s.now}
	if s.o.Spec.Schedule != "" {
		var err error
		if l.Schedule, err = schedule.Parse(s.o.Spec.Schedule, s.o.Spec.TimeZone); err != nil {
			s.t.Fatal(err)
		}
	}
	return l
}

func (s *simulation) active() string {
	if s.o.Status.Active == nil {
		return ""
	}
	return s.o.Status.Active.Name
}

func (s *simulation) names() (all []string) {
	for _, r := range policy.Copies(s.o) {
		all = append(all, r.Name)
	}
	return all
}

func (s *simulation) reason(kind string) string {
	c := conditions.Get(s.o, kind)
	return string(c.Status) + "/" + c.Reason
}

var (
	none    = policy.Attempt{}
	running = policy.Attempt{State: policy.Running}
	done    = policy.Attempt{State: policy.Succeeded, Result: policy.Result{Location: "x", SizeBytes: 1}}
	broken  = policy.Attempt{State: policy.Failed, Message: "broken"}
)

func TestMissedTimes(t *testing.T) {
	t.Parallel()
	for reason, c := range map[string]struct {
		text   string
		down   time.Duration
		active string
		missed int64
	}{
		"nothing is due":                 {"* * * * *", 20 * time.Second, "", 0},
		"one is due":                     {"* * * * *", time.Minute, "a-202601010001", 0},
		"half an hour of minutes":        {"* * * * *", 30 * time.Minute, "a-202601010030", 29},
		"too late for the one of a day":  {"30 * * * *", 90*time.Minute + 31*time.Minute, "a-202601010130", 1},
		"the last is late, but not late": {"0 2 1 1 *", 2*time.Hour + 59*time.Minute, "a-202601010200", 0},
		"too late":                       {"0 2 1 1 *", 3*time.Hour + time.Minute, "", 1},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			s := newSimulation(t, c.text)
			s.reconcile(0, none)
			s.reconcile(c.down, none)
			if got := s.active(); got != c.active || s.o.Status.Missed != c.missed {
				t.Errorf("copy %q is made and %d were missed, want %q and %d", got, s.o.Status.Missed, c.active, c.missed)
			}
			before := s.o.Status.DeepCopy()
			if s.reconcile(0, none); cmp.Diff(before, &s.o.Status) != "" {
				t.Errorf("the same look again changes something:\n%s", cmp.Diff(before, &s.o.Status))
			}
		})
	}
}

// A scheduled time during a running copy is missed and counted.
func TestOverlap(t *testing.T) {
	t.Parallel()
	s := newSimulation(t, "* * * * *")
	s.reconcile(time.Minute, none)
	s.reconcile(time.Second, running)
	s.reconcile(3*time.Minute, running)
	if s.active() != "a-202601010001" || s.o.Status.Missed != 3 || s.o.Status.Phase != v1.SnapshotRunning {
		t.Errorf("copy %s is made, %d were missed, phase %s", s.active(), s.o.Status.Missed, s.o.Status.Phase)
	}
	s.reconcile(10*time.Second, done)
	s.reconcile(time.Minute, none)
	if s.active() != "a-202601010005" || s.o.Status.Missed != 3 {
		t.Errorf("copy %s is made, %d were missed", s.active(), s.o.Status.Missed)
	}
}

// A clock that is set back leads to no second copy, and one that stays behind is reported.
func TestClockGoesBack(t *testing.T) {
	t.Parallel()
	s := newSimulation(t, "* * * * *")
	s.reconcile(3*time.Minute, none)
	s.reconcile(0, done)
	for range 3 {
		s.reconcile(-time.Minute, none)
		if s.active() != "" {
			t.Fatalf("at %s copy %s is made once more", s.now, s.active())
		}
	}
	s.reconcile(4*time.Minute, none)
	if s.active() != "a-202601010004" {
		t.Errorf("copy %q is made, want a-202601010004", s.active())
	}
	s.reconcile(0, done)
	s.reconcile(-2*time.Hour, none)
	if got := s.reason(v1.ConditionOverdue); got != "True/NoRecentCopy" || s.active() != "" {
		t.Errorf("two hours back Overdue is %s, and copy %q is made", got, s.active())
	}
}

// A copy that cannot start is retried until its deadline or the next time, and then recorded as failed.
func TestDelay(t *testing.T) {
	t.Parallel()
	for reason, c := range map[string]struct {
		text, active, message, next string
		after                       time.Duration
	}{
		"until the deadline": {
			"10 0 * * *", "a-202601010010", "it could not begin within 1h0m0s: no server", "", 62 * time.Minute,
		},
		"until the next time": {
			"*/10 * * * *", "a-202601010010", "the next copy was due before it could begin: no server", "a-202601010020",
			10 * time.Minute,
		},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			s := newSimulation(t, c.text)
			s.reconcile(10*time.Minute, none)
			l := s.reconcile(time.Minute, none)
			l.SetWaitReason("no server")
			if s.active() != c.active || s.o.Status.LastScheduleTime != nil || s.o.Status.Phase != v1.SnapshotScheduled {
				t.Errorf("copy %q waits, last schedule time %s, phase %s", s.active(), s.o.Status.LastScheduleTime, s.o.Status.Phase)
			}
			s.reconcile(c.after, none)
			if s.active() != c.next || s.o.Status.ConsecutiveFailures != 1 || s.o.Status.History[0].Message != c.message {
				t.Errorf("copy %q waits, %+v", s.active(), s.o.Status.History)
			}
			if s.o.Status.Missed != 0 {
				t.Errorf("%d were missed", s.o.Status.Missed)
			}
		})
	}
}

// After a suspension or a new schedule, earlier times are not made up for.
func TestNoCatchUpAfterScheduleChange(t *testing.T) {
	t.Parallel()
	for reason, c := range map[string]struct{ before, after func(*v1.DBSnapshotSpec) }{
		"suspended": {
			func(s *v1.DBSnapshotSpec) { s.Suspend = true }, func(s *v1.DBSnapshotSpec) { s.Suspend = false },
		},
		"another schedule": {func(*v1.DBSnapshotSpec) {}, func(s *v1.DBSnapshotSpec) { s.Schedule = "*/5 * * * *" }},
		"another zone": {
			func(s *v1.DBSnapshotSpec) { s.Schedule = "0 0 * * *" }, func(s *v1.DBSnapshotSpec) { s.TimeZone = "Asia/Kolkata" },
		},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			s := newSimulation(t, "0 0 * * *")
			s.reconcile(0, none)
			c.before(&s.o.Spec)
			s.reconcile(time.Second, none)
			c.after(&s.o.Spec)
			s.reconcile(23*time.Hour, none)
			if s.active() != "" || s.o.Status.Missed != 0 {
				t.Errorf("copy %q is made, %d were missed", s.active(), s.o.Status.Missed)
			}
			next := s.o.Status.NextScheduleTime.Time
			s.reconcile(next.Sub(s.now), none)
			if s.active() == "" {
				t.Errorf("no copy is made at %s", next)
			}
		})
	}
}

func TestSuspendedWhileDue(t *testing.T) {
	t.Parallel()
	s := newSimulation(t, "* * * * *")
	s.reconcile(time.Minute, none)
	s.o.Spec.Suspend = true
	s.reconcile(time.Second, none)
	if s.active() != "" || s.o.Status.Phase != v1.SnapshotSuspended || s.o.Status.NextScheduleTime != nil {
		t.Errorf("copy %q is made, phase %s, next %s", s.active(), s.o.Status.Phase, s.o.Status.NextScheduleTime)
	}
}

// A running copy is finished after the schedule is suspended.
func TestSuspendedWhileRunning(t *testing.T) {
	t.Parallel()
	s := newSimulation(t, "* * * * *")
	s.reconcile(time.Minute, none)
	s.reconcile(0, running)
	s.o.Spec.Suspend = true
	s.reconcile(time.Minute, running)
	if s.o.Status.Phase != v1.SnapshotRunning {
		t.Errorf("phase %s", s.o.Status.Phase)
	}
	s.reconcile(time.Minute, done)
	if s.o.Status.Phase != v1.SnapshotSuspended || len(s.names()) != 1 {
		t.Errorf("phase %s, copies %s", s.o.Status.Phase, s.names())
	}
}

func TestImmediateCopy(t *testing.T) {
	t.Parallel()
	for reason, c := range map[string]struct {
		text  string
		phase v1.SnapshotPhase
		end   policy.Attempt
		kept  int
	}{
		"without a schedule":            {"", v1.SnapshotSucceeded, done, 1},
		"without a schedule, and fails": {"", v1.SnapshotFailed, broken, 0},
		"beside a schedule":             {"0 12 * * *", v1.SnapshotScheduled, done, 1},
		"beside a schedule, and fails":  {"0 12 * * *", v1.SnapshotFailed, broken, 0},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			s := newSimulation(t, c.text)
			s.o.Spec.Immediate = true
			s.o.Spec.Retention.KeepFailed = new(int32(0))
			s.reconcile(time.Second, none)
			if s.active() != "a-20260101000030" {
				t.Fatalf("copy %q is made", s.active())
			}
			s.reconcile(0, c.end)
			for range 3 {
				s.reconcile(time.Minute, none)
			}
			if s.active() != "" || s.o.Status.Phase != c.phase || len(s.o.Status.History) != c.kept {
				t.Errorf("copy %q is made, phase %s, history %v", s.active(), s.o.Status.Phase, s.o.Status.History)
			}
		})
	}
}

// A copy fails after its deadline if no result was observed.
func TestUnreportedJobEnd(t *testing.T) {
	t.Parallel()
	waiting := policy.Attempt{State: policy.Running, Message: "ErrImagePull: not found"}
	for reason, c := range map[string]struct {
		after time.Duration
		end   policy.Attempt
		want  string // "" if it continues
	}{
		"what made it is gone, and made again": {119 * time.Minute, none, ""},
		"what made it is gone for too long":    {121 * time.Minute, none, "what made it is gone: ErrImagePull: not found"},
		"nothing ends it": {
			121 * time.Minute,
			policy.Attempt{State: policy.Running, NoDeadline: true, Message: "busy"},
			"it took longer than 2h0m0s: busy",
		},
		"something else ends it": {121 * time.Minute, running, ""},
		"Kubernetes ended it": {
			0,
			policy.Attempt{State: policy.Failed, Message: "DeadlineExceeded", IndirectMessage: true},
			"DeadlineExceeded: ErrImagePull: not found",
		},
		"it says why": {0, broken, "broken"},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			s := newSimulation(t, "0 0 2 1 *")
			s.reconcile(24*time.Hour, none)
			s.reconcile(0, waiting)
			s.reconcile(c.after, c.end)
			switch history := s.o.Status.History; {
			case c.want == "" && s.active() == "":
				t.Errorf("it has ended: %v", history)
			case c.want != "" && (len(history) != 1 || history[0].Message != c.want):
				t.Errorf("the history is %v, want %q", history, c.want)
			}
		})
	}
}

// Failures are counted and reported, and do not displace successes in the history.
func TestFailures(t *testing.T) {
	t.Parallel()
	s := newSimulation(t, "* * * * *")
	s.reconcile(time.Minute, none)
	s.reconcile(0, done)
	for range 5 {
		s.reconcile(time.Minute, none)
		s.reconcile(0, broken)
	}
	var got []string
	for _, r := range s.o.Status.History {
		got = append(got, r.Name+" "+r.Result)
	}
	if diff := cmp.Diff([]string{"a-202601010006 Failed", "a-202601010001 Succeeded"}, got); diff != "" {
		t.Errorf("the history is wrong, -want +got:\n%s", diff)
	}
	last := conditions.Get(s.o, v1.ConditionLastSucceeded)
	if s.o.Status.ConsecutiveFailures != 5 || !strings.Contains(last.Message, "broken") {
		t.Errorf("%d failures: %s", s.o.Status.ConsecutiveFailures, last.Message)
	}
	s.reconcile(time.Minute, none)
	s.reconcile(0, done)
	if s.o.Status.ConsecutiveFailures != 0 || s.reason(v1.ConditionLastSucceeded) != "True/Succeeded" {
		t.Errorf("%d failures, %s", s.o.Status.ConsecutiveFailures, s.reason(v1.ConditionLastSucceeded))
	}
}
