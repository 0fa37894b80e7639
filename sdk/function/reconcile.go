package function

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/homeostat-dev/homeostat/sdk/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
	"github.com/homeostat-dev/homeostat/sdk/internal/reference"
	"github.com/homeostat-dev/homeostat/sdk/internal/retry"
)

// Reasons of the Ready condition for what a function does wrong.
const (
	// ReasonCrashed means that the process ended during a call.
	ReasonCrashed = "FunctionCrashed"
	// ReasonTimeout means that there was no answer in time.
	ReasonTimeout = "FunctionTimeout"
	// ReasonInvalidAnswer means that the answer is not one of the protocol.
	ReasonInvalidAnswer = "InvalidAnswer"
	// ReasonNotDeterministic means that two answers to one request differ.
	ReasonNotDeterministic = "NotDeterministic"
	// ReasonUnavailable means that the process cannot be started or the server cannot be reached.
	ReasonUnavailable = "FunctionUnavailable"
	// ReasonStatusNotStored means that the CRD has no such field in the status.
	ReasonStatusNotStored = "StatusNotStored"
	// ReasonFailed means that the function answered with an error.
	ReasonFailed = "FunctionFailed"
)

// defaultPurity is the fraction of calls that are repeated.
const defaultPurity = 0.01

// notStoredRetry is the interval between reconciles of an object whose status is not stored as a whole. An update of the CRD
// causes none.
const notStoredRetry = time.Minute

// maxReads limits the answers of one reconcile that name further references.
const maxReads = 20

// caller calls the function of one operator.
type caller struct {
	config     Config
	connection Connection
	purity     float64
	ids        atomic.Int64

	mu      sync.Mutex
	known   map[types.UID][]Reference // that the last answer for the object named
	dropped map[types.UID]string      // a field of the status that the API server did not store
}

func (f *caller) reconcile(ctx context.Context, p *desired.Pass) error {
	if f.config.selects(p.Object) {
		return f.run(ctx, p, CallReconcile)
	}
	if f.config.Finalize && controllerutil.ContainsFinalizer(p.Object, f.config.finalizer()) {
		return f.finalize(ctx, p)
	}
	f.forget(p.Object.GetUID())
	p.Metadata = &object.MetadataEntries{}
	return nil
}

func (f *caller) finalize(ctx context.Context, p *desired.Pass) error {
	err := f.run(ctx, p, CallFinalize)
	if err == nil && p.Unfinished == nil {
		f.forget(p.Object.GetUID())
	}
	return err
}

// run calls the function until it has all references, and records its answer.
func (f *caller) run(ctx context.Context, p *desired.Pass, call string) error {
	uid := p.Object.GetUID()
	req, err := f.newRequest(p, call)
	if err != nil {
		return err
	}
	reader := p.References // a copy: only the references of the last answer stay watched
	names := f.lastKnown(uid)
	for range maxReads {
		if req.References, err = f.read(p, &reader, names); err != nil {
			p.References.Used = reader.Used
			return err
		}
		answer, err := f.answer(ctx, req)
		if err != nil {
			p.References.Used = reader.Used
			return err
		}
		missing := without(answer.References, names)
		if len(missing) == 0 {
			f.remember(uid, answer.References)
			if _, err := f.read(p, &p.References, answer.References); err != nil {
				return err
			}
			return f.record(p, call, answer)
		}
		names = append(slices.Clip(names), missing...)
	}
	p.References.Used = reader.Used
	return bug(ReasonInvalidAnswer, "the function names further references in each of %d answers", maxReads)
}

// A bug is the error for a mistake of the function: it is retried with exponential backoff.
func bug(reason, format string, args ...any) error {
	return &retry.ReconcileError{Class: retry.ClassPanic, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// answer calls the function with a request. Some calls are repeated to check that the function is pure.
func (f *caller) answer(ctx context.Context, req *Request) (*Answer, error) {
	req.ID = strconv.FormatInt(f.ids.Add(1), 10)
	data, err := encode(req)
	if err != nil {
		return nil, fmt.Errorf("encoding the request: %w", err)
	}
	first, err := f.callOnce(ctx, data)
	if err != nil {
		return nil, err
	}
	answer, err := decodeAnswer(first, req.ID)
	if err != nil {
		return nil, bug(ReasonInvalidAnswer, "the answer of the function is not usable: %s", err)
	}
	if f.purity < rand.Float64() { //nolint:gosec // the selection of calls needs no secrecy.
		return answer, nil
	}
	second, err := f.callOnce(ctx, data)
	if err != nil {
		return nil, err
	}
	if bytes.Equal(first, second) {
		return answer, nil
	}
	if at := difference(first, second); at != "" {
		return nil, bug(ReasonNotDeterministic, "two answers to one request differ at %s: the function must depend on the "+
			"request alone", at)
	}
	return answer, nil
}

func (f *caller) callOnce(ctx context.Context, request []byte) ([]byte, error) {
	began := time.Now()
	answer, err := f.connection.Call(ctx, request)
	observeCall(f.config.Name, began, err)
	if failure, ok := errors.AsType[*CallError](err); ok {
		return nil, bug(failure.Reason, "%s", failure.Message)
	}
	return answer, err
}

// read returns the references with their objects.
func (f *caller) read(p *desired.Pass, reader *reference.Reader, names []Reference) ([]Reference, error) {
	all := make([]Reference, 0, len(names))
	var errs []error
	for _, r := range names {
		if !f.config.AnyReference && !slices.Contains(f.config.References, Kind{r.APIVersion, r.Kind}) {
			return nil, bug(ReasonInvalidAnswer, "the function refers to kind %s: add it to references in the declaration of "+
				"the operator", Kind{r.APIVersion, r.Kind})
		}
		found, err := r.read(reader, p.Snapshot.Kinds, p.Object.GetNamespace())
		if err != nil { // all are read, so that all watches begin at once
			errs = append(errs, err)
			continue
		}
		r.Objects = found
		all = append(all, r)
	}
	return all, errors.Join(errs...)
}

// without returns the references that are not among others, once each.
func without(references, others []Reference) []Reference {
	var rest []Reference
	for _, r := range references {
		same := func(o Reference) bool { return o.key() == r.key() }
		if !slices.ContainsFunc(others, same) && !slices.ContainsFunc(rest, same) {
			rest = append(rest, r)
		}
	}
	return rest
}

func (f *caller) lastKnown(uid types.UID) []Reference {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.known[uid]
}

func (f *caller) remember(uid types.UID, references []Reference) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(references) == 0 {
		delete(f.known, uid)
		return
	}
	f.known[uid] = without(references, nil)
}

func (f *caller) forget(uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.known, uid)
	delete(f.dropped, uid)
}

// takeDropped returns the field that the API server did not store, and forgets it if it is in the stored status as sent.
func (f *caller) takeDropped(o *Object, sent map[string]any) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	field := f.dropped[o.UID]
	if equality.Semantic.DeepEqual(sent[field], o.Status.Fields[field]) {
		delete(f.dropped, o.UID)
		return ""
	}
	return field
}

// setDropped remembers a field that the API server did not store, or forgets the former one if the name is empty.
func (f *caller) setDropped(uid types.UID, field string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.dropped, uid)
	if field != "" {
		f.dropped[uid] = field
	}
}
