package remote_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/homeostat-dev/homeostat/sdk/external"
)

// Times of the simulated cloud.
const (
	maxLatency = time.Minute
	readDelay  = 10 * time.Second
)

// A cloud is a simulated remote API, with a simulated clock. Answers are lost, requests are carried out late, reads are
// eventually consistent, and some requests are throttled or rejected.
type cloud struct {
	rand      *rand.Rand
	now       time.Time
	faults    bool
	crashes   bool // a request may also end the process
	remembers bool // the token of a creation

	serial    int
	resources map[string]*bucket
	tokens    map[string]*bucket // all that were created with a token
	late      []lateRequest
	requests  int
	doubles   []string
}

type bucket struct {
	id, token, input string
	original         string // input of the creation
	created, deleted time.Time
}

type lateRequest struct {
	at time.Time
	do func()
}

func newCloud(seed uint64, remembers bool) *cloud {
	return &cloud{
		rand: rand.New(rand.NewPCG(seed, 1)), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), faults: true, crashes: true,
		remembers: remembers, resources: map[string]*bucket{}, tokens: map[string]*bucket{},
	}
}

var (
	errLost  = errors.New("the connection was lost")
	errCrash = errors.New("the process was killed")
)

// advance lets time pass, and carries out late requests.
func (c *cloud) advance(d time.Duration) {
	end := c.now.Add(d)
	for {
		i := -1
		for j, l := range c.late {
			if !l.at.After(end) && (i < 0 || l.at.Before(c.late[i].at)) {
				i = j
			}
		}
		if i < 0 {
			break
		}
		l := c.late[i]
		c.late = slices.Delete(c.late, i, i+1)
		if l.at.After(c.now) {
			c.now = l.at
		}
		l.do()
	}
	c.now = end
}

// ask carries out a request that changes something, with the faults of a network.
func (c *cloud) ask(do func() (external.State, error)) (external.State, error) {
	c.requests++
	c.advance(time.Duration(c.rand.IntN(2000)) * time.Millisecond)
	fault := 0
	if c.faults {
		fault = c.rand.IntN(12)
	}
	switch fault {
	case 1: // the answer is lost
		_, _ = do()
		return external.State{}, errLost
	case 2: // the request is lost
		return external.State{}, errLost
	case 3, 4: // it is carried out late
		at := c.now.Add(time.Duration(c.rand.Int64N(int64(maxLatency))))
		c.late = append(c.late, lateRequest{at, func() { _, _ = do() }})
		return external.State{}, errLost
	case 5:
		return external.State{}, external.RetryAfter(time.Duration(c.rand.IntN(20))*time.Second, errors.New("slow down"))
	case 6, 7:
		if !c.crashes {
			break
		}
		switch c.rand.IntN(3) {
		case 0:
			_, _ = do()
		case 1:
			at := c.now.Add(time.Duration(c.rand.Int64N(int64(maxLatency))))
			c.late = append(c.late, lateRequest{at, func() { _, _ = do() }})
		}
		panic(errCrash)
	}
	return do()
}

func (r *bucket) exists() bool { return r.deleted.IsZero() }

func (c *cloud) existing() []*bucket {
	all := slices.DeleteFunc(slices.Collect(maps.Values(c.resources)), func(r *bucket) bool { return !r.exists() })
	slices.SortFunc(all, func(a, b *bucket) int { return a.created.Compare(b.created) })
	return all
}

// add creates a resource. All resources of a cloud belong to one name of one object, so a second one is a double.
func (c *cloud) add(id, token, input string) *bucket {
	r := &bucket{id: id, token: token, input: input, original: input, created: c.now}
	if other := c.existing(); len(other) > 0 {
		c.doubles = append(c.doubles, fmt.Sprintf("%v: %s beside %s", c.now.Format(time.TimeOnly), id, other[0].id))
	}
	c.resources[id] = r
	c.tokens[token] = r
	return r
}

func (c *cloud) newID() string {
	c.serial++
	return fmt.Sprintf("id-%d", c.serial)
}

func (r *bucket) state() external.State {
	return external.State{ID: r.id, Outputs: map[string]string{"address": r.id + ".example"}}
}

// visible reports whether a read sees the resource.
func (c *cloud) visible(r *bucket) bool {
	stale := c.faults && c.rand.IntN(2) == 0
	if !r.exists() {
		return stale && c.now.Sub(r.deleted) < readDelay
	}
	return !stale || c.now.Sub(r.created) >= readDelay
}

// read is [cloud.ask] for a request that changes nothing.
func (c *cloud) read(r *bucket) (external.State, error) {
	return c.ask(func() (external.State, error) {
		if r == nil || !c.visible(r) {
			return external.State{}, external.ErrNotFound
		}
		return r.state(), nil
	})
}

func (c *cloud) operations() external.Operations[input] {
	return external.Operations[input]{
		Observe: func(_ context.Context, id string) (external.State, error) { return c.read(c.resources[id]) },
		Update: func(_ context.Context, id string, in input) (external.State, error) {
			return c.ask(func() (external.State, error) {
				r := c.resources[id]
				if r == nil || !r.exists() {
					return external.State{}, external.ErrNotFound
				}
				r.input = in.Text
				return r.state(), nil
			})
		},
		Delete: func(_ context.Context, id string) error {
			_, err := c.ask(func() (external.State, error) {
				r := c.resources[id]
				if r == nil || !r.exists() || !c.visible(r) {
					return external.State{}, external.ErrNotFound
				}
				r.deleted = c.now
				return external.State{}, nil
			})
			return err
		},
	}
}

// input is the desired state of a resource.
type input struct{ Text string }

// api returns the API in a mode.
func (c *cloud) api(mode string) external.API[input] {
	byToken := func(_ context.Context, token string, in input) (external.State, error) {
		return c.ask(func() (external.State, error) {
			if r := c.tokens[token]; r != nil && c.remembers {
				if r.original != in.Text {
					c.doubles = append(c.doubles, fmt.Sprintf("token of %s with input %q, created with %q", r.id, in.Text, r.original))
				}
				return r.state(), nil
			}
			return c.add(c.newID(), token, in.Text).state(), nil
		})
	}
	find := func(_ context.Context, token string) (external.State, error) { return c.read(c.tokens[token]) }
	switch mode {
	case "ByToken":
		return external.ByToken[input]{Operations: c.operations(), Create: byToken}
	case "ByToken with Find":
		return external.ByToken[input]{Operations: c.operations(), Create: byToken, Find: find}
	case "ByName":
		return external.ByName[input]{
			Operations: c.operations(),
			Create: func(_ context.Context, name string, in input) (external.State, error) {
				return c.ask(func() (external.State, error) {
					if r := c.resources[name]; r != nil && r.exists() {
						return external.State{}, external.ErrExists
					}
					return c.add(name, name, in.Text).state(), nil
				})
			},
		}
	case "ByTag":
		return external.ByTag[input]{Operations: c.operations(), Create: byToken, Find: find}
	default:
		return external.AtMostOnce[input]{
			Operations: c.operations(),
			Create: func(ctx context.Context, in input) (external.State, error) {
				return byToken(ctx, fmt.Sprint("none-", c.serial), in)
			},
		}
	}
}
