package remote_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/homeostat-dev/homeostat/sdk/external"
	"github.com/homeostat-dev/homeostat/sdk/internal/remote"
	"github.com/homeostat-dev/homeostat/sdk/internal/retry"
)

// A simulation is one custom resource with one external resource, reconciled by two replicas of an operator that both
// believe to be the leader, with a status that is stored under optimistic concurrency.
type simulation struct {
	t     *testing.T
	cloud *cloud
	kind  external.Untyped

	version  int
	stored   *external.Resource // the status
	desired  string             // the input; "" if the resource is not desired
	deleted  bool               // the custom resource is being deleted
	answer   string             // the annotation
	replicas [2]*replica
	finished bool // the finalizer is removed
	verbose  bool
	log      []string
	failures []string
}

type replica struct {
	memory  remote.Memory
	version int                // of the status that it reads
	read    *external.Resource // possibly an old one
	next    time.Time
	paused  bool
	err     error
}

func newSimulation(t *testing.T, mode string, seed uint64) *simulation {
	c := newCloud(seed, strings.HasPrefix(mode, "ByToken"))
	s := &simulation{t: t, cloud: c, replicas: [2]*replica{{}, {}}, desired: "0"}
	kind := &external.Kind[input]{
		Name: "bucket", API: c.api(mode), MaxLatency: maxLatency, ReadDelay: readDelay, Account: &external.Account{},
	}
	var err error
	if s.kind, err = kind.Untyped(); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *simulation) logf(format string, args ...any) {
	if !s.verbose {
		return
	}
	s.log = append(s.log, s.cloud.now.Format(time.TimeOnly)+" "+fmt.Sprintf(format, args...))
}

func clone(r *external.Resource) *external.Resource {
	if r == nil {
		return nil
	}
	return r.DeepCopy()
}

func equal(a, b *external.Resource) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Equal(*b)
}

// reconcile is one reconcile by a replica.
func (s *simulation) reconcile(n int) {
	r := s.replicas[n]
	if s.finished || s.cloud.now.Before(r.next) {
		return
	}
	defer s.recoverCrash(n)
	if s.cloud.faults && s.cloud.rand.IntN(15) == 0 { // the process is paused, and knows nothing new after that
		r.next = s.cloud.now.Add(time.Duration(s.cloud.rand.Int64N(int64(3 * maxLatency))))
		r.paused = true
		return
	}
	if r.version == 0 || !s.cloud.faults || !r.paused && s.cloud.rand.IntN(3) > 0 { // its cache is up to date
		r.version = s.version
		r.read = clone(s.stored)
	}
	r.paused = false
	if (s.desired == "" || s.deleted) && r.read == nil {
		s.write(r, nil, s.deleted)
		return
	}
	step := s.step(r)
	r.err = step.Err
	r.next = s.cloud.now.Add(max(retry.RequestedDelay(step.Err), step.After))
	if !equal(step.Resource, r.read) {
		r.next = s.cloud.now
		s.write(r, step.Resource, false)
	}
	if s.verbose {
		s.logf("replica %d: %s %v", n, describe(step.Resource), step.Err)
	}
}

// step asks the engine for the next step.
func (s *simulation) step(r *replica) remote.Step {
	e := &remote.Engine{Untyped: s.kind, Now: func() time.Time { return s.cloud.now }, Rand: s.cloud.rand.Float64}
	if s.desired == "" || s.deleted {
		return e.Delete(s.t.Context(), r.read, s.answer, &r.memory)
	}
	text, err := json.Marshal(input{s.desired})
	if err != nil {
		s.t.Fatal(err)
	}
	return e.Apply(s.t.Context(), r.read, remote.Want{Name: "data", Input: string(text), Answer: s.answer}, &r.memory)
}

// recoverCrash ends a process that the cloud has killed. It has to be deferred.
func (s *simulation) recoverCrash(n int) {
	switch x := recover(); x {
	case nil:
	case errCrash:
		s.logf("replica %d is killed", n)
		*s.replicas[n] = replica{}
	default:
		panic(x)
	}
}

func describe(r *external.Resource) string {
	if r == nil {
		return "none"
	}
	text, _ := json.Marshal(r)
	return string(text)
}

// write stores the status of a replica that has read a version.
func (s *simulation) write(r *replica, to *external.Resource, finish bool) {
	fault := 0
	if s.cloud.faults {
		fault = s.cloud.rand.IntN(10)
	}
	if fault == 1 || r.version != s.version { // an error, or a conflict
		s.logf("the status is not stored")
		r.version = 0
		return
	}
	s.version++
	s.stored = clone(to)
	s.finished = finish
	r.version = s.version
	r.read = clone(to)
	switch fault {
	case 2: // the answer is lost
		r.version = 0
	case 3:
		panic(errCrash)
	}
}

// run lets both replicas work for a time.
func (s *simulation) run(d time.Duration) {
	for end := s.cloud.now.Add(d); s.cloud.now.Before(end); {
		n := s.cloud.rand.IntN(2)
		if !s.cloud.faults {
			n = 0 // one leader in the end
		}
		s.reconcile(n)
		s.answerUnknown()
		next := s.cloud.now.Add(time.Duration(s.cloud.rand.IntN(3000)) * time.Millisecond)
		if !s.cloud.faults && s.replicas[0].next.After(next) {
			next = s.replicas[0].next
		}
		s.cloud.advance(min(next.Sub(s.cloud.now), time.Minute))
	}
}

// answerUnknown is a person who looks up a creation whose outcome is not known, after it cannot be carried out any more.
func (s *simulation) answerUnknown() {
	for _, r := range s.replicas {
		var p *retry.ReconcileError
		if !errors.As(r.err, &p) || p.Reason != remote.ReasonOutcomeUnknown || s.stored == nil || s.stored.Request == nil ||
			s.cloud.now.Sub(s.stored.Request.Time.Time) < 2*maxLatency {
			continue
		}
		id := remote.NoResource
		if all := s.cloud.existing(); len(all) > 0 {
			id = all[0].id
		}
		s.answer = s.stored.Request.Attempt + "=" + id
		for _, r := range s.replicas {
			r.next = s.cloud.now // the annotation is an event
		}
	}
}

func (s *simulation) fail(format string, args ...any) {
	s.failures = append(s.failures, fmt.Sprintf(format, args...))
	s.logf("FAILURE: "+format, args...)
}

// Schedules of crashes, lost and late answers, throttling, stale reads and two leaders: there is never a second resource,
// the desired one exists in the end, and none remains after the deletion.
func TestSchedules(t *testing.T) {
	t.Parallel()
	schedules := 1000
	if testing.Short() {
		schedules = 60
	}
	for _, mode := range []string{"ByToken", "ByToken with Find", "ByName", "ByTag", "AtMostOnce"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			requests := 0
			for seed := range uint64(schedules) {
				s := newSimulation(t, mode, seed)
				s.schedule()
				requests += s.cloud.requests
				if len(s.failures) > 0 {
					again := newSimulation(t, mode, seed)
					again.verbose = true
					again.schedule()
					t.Fatalf("seed %d: %v\n%s", seed, s.failures, strings.Join(again.log, "\n"))
				}
			}
			t.Logf("%d schedules, %d requests", schedules, requests)
		})
	}
}

func (s *simulation) schedule() {
	c := s.cloud
	for i := range 1 + c.rand.IntN(4) {
		s.desired = strconv.Itoa(i)
		if c.rand.IntN(4) == 0 {
			s.desired = "" // it leaves the plan
		}
		s.wake()
		s.logf("desired: %q", s.desired)
		s.run(time.Duration(c.rand.IntN(60)) * time.Second * time.Duration(1+4*c.rand.IntN(2)))
	}
	s.stop()
	s.run(20 * time.Minute)
	s.check()
	atRest := c.requests
	s.run(time.Hour)
	if c.requests != atRest {
		s.fail("%d requests at rest", c.requests-atRest)
	}
	c.faults = true
	c.crashes = true
	s.deleted = true
	s.wake()
	s.logf("the object is deleted")
	s.run(time.Duration(c.rand.IntN(60)) * time.Second)
	s.stop()
	s.run(20 * time.Minute)
	c.advance(maxLatency)
	if left := c.existing(); len(left) > 0 || !s.finished {
		s.fail("finished: %v, left: %d", s.finished, len(left))
	}
}

// wake lets the replicas know of a change.
func (s *simulation) wake() {
	for _, r := range s.replicas {
		r.next = s.cloud.now
	}
}

// stop ends the faults. One replica remains.
func (s *simulation) stop() {
	s.cloud.faults = false
	s.cloud.crashes = false
	s.replicas[1].next = s.cloud.now.Add(1000 * time.Hour)
}

func (s *simulation) check() {
	c := s.cloud
	if len(c.doubles) > 0 {
		s.fail("doubles: %v", c.doubles)
	}
	all := c.existing()
	switch {
	case s.desired == "" && len(all) > 0:
		s.fail("%d resources are left", len(all))
	case s.desired == "":
	case len(all) != 1 || all[0].input != s.desired:
		s.fail("want one resource with %q, have %d: %v", s.desired, len(all), slices.Collect(maps.Keys(c.resources)))
	case s.stored == nil || s.stored.Phase != external.Ready || s.stored.ID != all[0].id:
		s.fail("the status is %s", describe(s.stored))
	}
}

// A resource is created, updated and deleted although storing an intent takes longer than the send window.
func TestSlowStorage(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"ByToken", "ByToken with Find", "ByName", "ByTag", "AtMostOnce"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := newSimulation(t, mode, 1)
			s.verbose = true
			s.cloud.faults = false
			reconcile := func() {
				for range 12 {
					s.reconcile(0)
					s.cloud.advance(maxLatency * 3 / 4) // the send window is a quarter
				}
			}
			for _, input := range []string{"1", "2"} {
				s.desired = input
				s.wake()
				reconcile()
				if all := s.cloud.existing(); len(all) != 1 || !strings.Contains(all[0].input, input) {
					t.Fatalf("%d resources exist, want one with input %s\n%s", len(all), input, strings.Join(s.log, "\n"))
				}
			}
			s.deleted = true
			s.wake()
			reconcile()
			if !s.finished || len(s.cloud.existing()) > 0 {
				t.Errorf("the resource was not deleted\n%s", strings.Join(s.log, "\n"))
			}
		})
	}
}
