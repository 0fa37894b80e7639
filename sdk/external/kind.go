package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Kind is a kind of external resources, such as the buckets of one provider. In is the desired state of a resource: a type
// that encoding/json encodes and decodes without loss. It is stored in the status while a creation has no answer, so it must
// contain no secrets.
//
// The functions of a Kind are called by several goroutines. They must return soon after their context has ended.
type Kind[In any] struct {
	// Name identifies the kind within an operator. It is a DNS label, is stored in the status, and must not change between
	// versions. Required.
	Name string
	// API has the requests. Its type says how a creation happens exactly once. Required.
	API API[In]
	// Account limits the requests. Several kinds may share one. If sdk.Operator.Connect names accounts, these are the limits
	// of each. Nil means that there is no limit.
	Account *Account
	// PollInterval is the interval between observations of a pending resource, with a jitter of 20 %. Zero means 5 s.
	PollInterval time.Duration
	// ResyncInterval is the interval between observations of a resource in its desired state, with a jitter of 20 %. Zero
	// means that it is not observed: its drift is not noticed, and it causes no requests.
	ResyncInterval time.Duration
	// RequestTimeout limits each request. Zero means 30 s.
	RequestTimeout time.Duration
	// MaxLatency is the time after which a request without an answer is carried out or never will be. It includes the
	// difference between the clocks of two replicas of the operator. Zero means 5 minutes.
	MaxLatency time.Duration
	// ReadDelay is the time after which each observation sees a completed write. Zero means that reads are consistent.
	ReadDelay time.Duration
}

// Operations are the requests that all APIs have.
type Operations[In any] struct {
	// Observe reads a resource. Required.
	Observe func(ctx context.Context, id string) (State, error)
	// Update brings a resource to its desired state. It is repeated, so it must set values and not, for example, add them.
	// Nil means that a resource cannot be changed: a change of its input makes the custom resource Stalled.
	Update func(ctx context.Context, id string, in In) (State, error)
	// Delete deletes a resource, or begins to. It is repeated until Observe returns [ErrNotFound]. Required.
	Delete func(ctx context.Context, id string) error
}

// API is one of [ByToken], [ByName], [ByTag] and [AtMostOnce].
type API[In any] interface{ untyped() (Untyped, error) }

// ByToken is an API whose creations carry an idempotency token.
type ByToken[In any] struct {
	Operations[In]
	// Create creates a resource. A repetition with the same token and input returns the resource of the first one. Required.
	Create func(ctx context.Context, token string, in In) (State, error)
	// Find returns the resource that was created with a token, or [ErrNotFound]. Optional: without it, the deletion of a
	// resource whose creation has no answer repeats the creation, to learn the ID.
	Find func(ctx context.Context, token string) (State, error)
}

// ByName is an API whose client selects the name of a resource, which is its ID. A resource that existed before the intent
// to create it is a conflict: it is neither changed nor deleted. One that another client creates with the same name between
// the intent and the creation is taken for this one, so a selected name should be unique.
type ByName[In any] struct {
	Operations[In]
	// Create creates a resource, or returns [ErrExists]. Required.
	Create func(ctx context.Context, name string, in In) (State, error)
	// Name returns the name for a desired state. The default is a unique text of 32 hexadecimal digits.
	Name func(in In) string
}

// ByTag is an API whose resources can be found by a token that was stored in them by their creation.
type ByTag[In any] struct {
	Operations[In]
	// Create creates a resource that contains the token, for example as a label. Required.
	Create func(ctx context.Context, token string, in In) (State, error)
	// Find returns the resource that contains a token, or [ErrNotFound]. Required.
	Find func(ctx context.Context, token string) (State, error)
}

// AtMostOnce is an API that can neither deduplicate a creation nor find its result.
type AtMostOnce[In any] struct {
	Operations[In]
	// Create creates a resource. It is not repeated, unless it returned an error of [RetryAfter] or [Rejected]. Required.
	Create func(ctx context.Context, in In) (State, error)
}

// Mode is the way in which a creation happens exactly once.
type Mode string

// The modes are named after the types.
const (
	ModeByToken    Mode = "ByToken"
	ModeByName     Mode = "ByName"
	ModeByTag      Mode = "ByTag"
	ModeAtMostOnce Mode = "AtMostOnce"
)

// Untyped is a [Kind] whose inputs are JSON, for package sdk. Its times have no zero values.
type Untyped struct {
	Name                                                                string
	Mode                                                                Mode
	Account                                                             *Account
	PollInterval, ResyncInterval, RequestTimeout, MaxLatency, ReadDelay time.Duration

	Observe func(ctx context.Context, id string) (State, error)
	Create  func(ctx context.Context, token, input string) (State, error)
	Find    func(ctx context.Context, token string) (State, error)     // may be nil
	Update  func(ctx context.Context, id, input string) (State, error) // may be nil
	Rename  func(input string) (string, error)                         // may be nil
	Delete  func(ctx context.Context, id string) error
}

// Definition is a [Kind] of any input.
type Definition interface {
	// Untyped returns the definition, or an error that names every mistake in it.
	Untyped() (Untyped, error)
}

// Untyped implements [Definition].
func (k *Kind[In]) Untyped() (Untyped, error) {
	var errs []error
	for _, problem := range validation.IsDNS1123Label(k.Name) {
		errs = append(errs, fmt.Errorf("field Name of external kind %q: %s", k.Name, problem))
	}
	if k.API == nil {
		return Untyped{}, errors.Join(append(errs, fmt.Errorf("field API of external kind %q is missing", k.Name))...)
	}
	u, err := k.API.untyped()
	if err != nil {
		errs = append(errs, fmt.Errorf("field API of external kind %q: %w", k.Name, err))
	}
	for field, d := range map[string]time.Duration{
		"PollInterval": k.PollInterval, "ResyncInterval": k.ResyncInterval, "RequestTimeout": k.RequestTimeout,
		"MaxLatency": k.MaxLatency, "ReadDelay": k.ReadDelay,
	} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("field %s of external kind %q is negative", field, k.Name))
		}
	}
	u.Name = k.Name
	u.Account = k.Account
	u.ResyncInterval = k.ResyncInterval
	u.ReadDelay = k.ReadDelay
	u.PollInterval = orDefault(k.PollInterval, 5*time.Second)
	u.RequestTimeout = orDefault(k.RequestTimeout, 30*time.Second)
	u.MaxLatency = orDefault(k.MaxLatency, 5*time.Minute)
	return u, errors.Join(errs...)
}

func orDefault(d, value time.Duration) time.Duration {
	if d == 0 {
		return value
	}
	return d
}

func (o Operations[In]) operations(mode Mode, create, find bool) (Untyped, error) {
	var errs []error
	for field, present := range map[string]bool{
		"Observe": o.Observe != nil, "Delete": o.Delete != nil, "Create": create, "Find": find,
	} {
		if !present {
			errs = append(errs, fmt.Errorf("function %s is missing", field))
		}
	}
	u := Untyped{Mode: mode, Observe: o.Observe, Delete: o.Delete}
	if o.Update != nil {
		u.Update = func(ctx context.Context, id, input string) (State, error) {
			in, err := decode[In](input)
			if err != nil {
				return State{}, err
			}
			return o.Update(ctx, id, in)
		}
	}
	return u, errors.Join(errs...)
}

func (a ByToken[In]) untyped() (Untyped, error) {
	u, err := a.operations(ModeByToken, a.Create != nil, true)
	u.Create = decodeInput(a.Create)
	u.Find = a.Find
	return u, err
}

func (a ByName[In]) untyped() (Untyped, error) {
	u, err := a.operations(ModeByName, a.Create != nil, true)
	u.Create = decodeInput(a.Create)
	if a.Name != nil {
		u.Rename = func(input string) (string, error) {
			in, err := decode[In](input)
			if err != nil {
				return "", err
			}
			return a.Name(in), nil
		}
	}
	return u, err
}

func (a ByTag[In]) untyped() (Untyped, error) {
	u, err := a.operations(ModeByTag, a.Create != nil, a.Find != nil)
	u.Create = decodeInput(a.Create)
	u.Find = a.Find
	return u, err
}

func (a AtMostOnce[In]) untyped() (Untyped, error) {
	u, err := a.operations(ModeAtMostOnce, a.Create != nil, true)
	u.Create = decodeInput(func(ctx context.Context, _ string, in In) (State, error) { return a.Create(ctx, in) })
	return u, err
}

func decodeInput[In any](
	f func(context.Context, string, In) (State, error),
) func(context.Context, string, string) (State, error) {
	return func(ctx context.Context, token, input string) (State, error) {
		in, err := decode[In](input)
		if err != nil {
			return State{}, err
		}
		return f(ctx, token, in)
	}
}

func decode[In any](input string) (In, error) {
	var in In
	if err := json.Unmarshal([]byte(input), &in); err != nil {
		return in, Rejected(fmt.Errorf("decoding the input of an external resource: %w", err))
	}
	return in, nil
}
