package mutants_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit"
	v1 "github.com/homeostat-dev/homeostat/testkit/mutants/api/v1"
)

// requestWitnesses holds the witnesses of bugs about failed requests, watches and stale caches.
var requestWitnesses = map[string]witness{
	"outage/gives-up": func(r *run) error {
		r.net.failTimes(3, creates("configmaps"))
		r.Apply(feed())
		return r.eventually(r.meets(feed(), testkit.Ready()))
	},
	"outage/final-error": func(r *run) error {
		r.net.failTimes(1, creates("configmaps"))
		r.Apply(feed())
		return r.eventually(r.meets(feed(), testkit.Ready()))
	},
	"outage/failed-list": func(r *run) error {
		r.ready(r.Apply(feed()))
		if err := r.waitIdle(); err != nil {
			return err
		}
		r.net.failTimes(1, lists("feeds"))
		r.Apply(post("rain"))
		return r.eventually(r.hasData("f-digest", map[string]string{"monday": "rain"}))
	},
	"outage/cached-default": func(r *run) error {
		r.Apply(configMap("feed-settings", "length", "2"))
		r.Apply(post("rain"))
		r.net.failTimes(1, gets("configmaps", "feed-settings"))
		r.ready(r.Apply(feed()))
		return r.eventually(r.hasData("f-digest", map[string]string{"monday": "ra"}))
	},

	"stale-pass/collision": func(r *run) error {
		r.ready(r.Apply(batch(0)))
		r.reset()
		release := r.net.delayEvents("configmaps")
		r.Apply(batch(2))
		r.until("create", "configmaps", 3)
		release()
		r.ready(batch(0))
		if err := r.waitIdle(); err != nil { // the mutant creates the wrong run in its second pass
			return err
		}
		return r.eventually(r.has("b-run-0", "b-run-1", "b-total"))
	},
	"stale-pass/next-number": func(r *run) error {
		r.ready(r.Apply(batch(0)))
		r.reset()
		release := r.net.delayEvents("configmaps")
		r.Apply(batch(2))
		r.until("create", "configmaps", 3)
		release()
		return r.sends(batch(0), "create", http.StatusCreated, 2)
	},
	"stale-pass/prunes-twice": func(r *run) error {
		r.ready(r.Apply(batch(5)))
		r.reset()
		release := r.net.delayEvents("configmaps")
		r.Apply(batch(3))
		r.until("delete", "configmaps", 3)
		release()
		return r.sends(batch(0), "delete", http.StatusOK, 2)
	},

	"dead-watch/ends-when-closed": func(r *run) error {
		return r.afterWatchFault(func() { r.net.endWatches("secrets", io.EOF) })
	},
	"dead-watch/ends-when-expired": func(r *run) error {
		return r.afterWatchFault(func() { r.net.endWatches("secrets", errDown) })
	},
	"dead-watch/no-relist": func(r *run) error {
		return r.afterWatchFault(func() {
			opened := make(chan struct{})
			r.net.set(func(req *http.Request) error {
				if lists("secrets")(req) {
					<-opened // there is a change between two watches
				}
				return nil
			}, nil)
			r.net.endWatches("secrets", io.EOF)
			r.Apply(password("two"))
			close(opened)
		})
	},

	"two-faults/no-mark": func(r *run) error {
		r.ready(r.Apply(transfer("a")))
		r.net.failInOrder(updates("configmaps/t-checksum"), updates("configmaps/t-data"))
		r.Apply(transfer("b"))
		r.ready(transfer(""))
		return r.eventually(r.hasChecksum("b"))
	},
	"two-faults/token-copy": func(r *run) error {
		r.ready(r.Apply(transfer("a")))
		all, err := r.configMaps(r.Context())
		if err != nil {
			return err
		}
		want := all["t-data"]["token"]
		r.op.Kill()
		net := &network{}
		net.failTimes(1, gets("configmaps", "t-data"))
		r.startWith(net)
		r.ready(r.Apply(transfer("b")))
		return r.eventually(r.hasData("t-data", map[string]string{"data": "b", "token": want}))
	},
	"two-faults/stale-lock": func(r *run) error {
		died := r.net.failAt(false, creates("configmaps"))
		r.Apply(transfer("a"))
		<-died
		r.op.Kill()
		net := &network{}
		net.failTimes(1, updates("transfers/t"))
		r.startWith(net)
		return r.eventually(r.meets(transfer(""), testkit.Ready()))
	},

	"clock/every-start": func(r *run) error {
		return r.keepsTime(func() { r.restart(func() {}) })
	},
	"clock/rounded": func(r *run) error {
		return r.keepsTime(func() { r.Delete(configMap("t", "", "")) })
	},
	"clock/transition": func(r *run) error {
		r.ready(r.Apply(timer("a")))
		t := timer("")
		r.Get(t)
		since := t.Status.Conditions[0].LastTransitionTime
		r.waitSecond()
		r.ready(r.Apply(timer("b")))
		r.Get(t)
		if now := t.Status.Conditions[0].LastTransitionTime; !now.Equal(&since) {
			return fmt.Errorf("lastTransitionTime was %v and is %v, and Ready has not changed", since, now)
		}
		return nil
	},
	"clock/first-only": func(r *run) error {
		r.ready(r.Apply(timer("a")))
		t := timer("")
		r.Get(t)
		first := t.Status.LastChangeUnix
		r.waitSecond()
		r.ready(r.Apply(timer("b")))
		return r.eventually(r.meets(t, testkit.Match("changed later", func(t *v1.Timer) bool {
			return t.Status.LastChangeUnix > first
		})))
	},
}

// afterWatchFault checks that a Mirror follows its Secret after a fault of the operator's watch.
func (r *run) afterWatchFault(fault func()) error {
	r.Apply(password("one"))
	r.ready(r.Apply(mirror()))
	r.Wait("the watch is open", func(context.Context) error {
		if len(r.net.openWatches("secrets")) == 0 {
			return errors.New("it is not")
		}
		return nil
	})
	if err := r.waitIdle(); err != nil {
		return err
	}
	fault()
	r.Apply(password("two"))
	return r.eventually(r.hasData("m-mirror", map[string]string{"password": "two"}))
}

// hasChecksum returns a check of the checksum of a Transfer's data.
func (r *run) hasChecksum(data string) func(context.Context) error {
	sum := sha256.Sum256([]byte(data))
	return func(ctx context.Context) error {
		all, err := r.configMaps(ctx)
		if want, got := hex.EncodeToString(sum[:4]), all["t-checksum"]["data"]; err == nil && got != want {
			err = fmt.Errorf("the checksum is %q, want %q", got, want)
		}
		return err
	}
}

// keepsTime checks that an event that is no change of the spec does not set the time of the last change.
func (r *run) keepsTime(event func()) error {
	r.ready(r.Apply(timer("a")))
	t := timer("")
	r.Get(t)
	before := t.Status.LastChangeUnix
	r.waitSecond()
	event()
	if err := r.waitIdle(); err != nil {
		return err
	}
	moved := func(context.Context) error {
		if r.Get(t); t.Status.LastChangeUnix == before {
			return errors.New("the time is the same")
		}
		return nil
	}
	err := moved(r.Context())
	if !r.m.IsCorrect() {
		err = r.eventually(moved) // a busy machine may have taken a pause for the end
	}
	if err == nil {
		return fmt.Errorf("the time was %d and is %d, and nothing has changed", before, t.Status.LastChangeUnix)
	}
	return nil
}

// waitSecond waits until the time in seconds is another one.
func (r *run) waitSecond() {
	now := time.Now()
	select {
	case <-time.After(now.Truncate(time.Second).Add(time.Second).Sub(now)):
	case <-r.Context().Done():
	}
}

// reset waits until the operator is idle, and forgets its requests.
func (r *run) reset() {
	r.t.Helper()
	if err := r.waitIdle(); err != nil {
		r.t.Fatal(err)
	}
	r.op.Recorder().Reset()
}

// sends checks that the operator, once idle, has sent n requests for ConfigMaps that succeeded.
func (r *run) sends(obj client.Object, verb string, code, n int) error {
	r.ready(obj)
	if err := r.waitIdle(); err != nil {
		return err
	}
	if got := r.count(verb, "configmaps", code); got != n {
		return fmt.Errorf("it did %s %d ConfigMaps, want %d", verb, got, n)
	}
	return nil
}

func feed() *v1.Feed {
	f := &v1.Feed{Spec: v1.FeedSpec{Topic: "news"}}
	f.Name = "f"
	return f
}

func post(text string) *corev1.ConfigMap {
	cm := configMap("monday", "text", text)
	cm.Labels = map[string]string{"topic": "news"}
	return cm
}

func batch(runs int32) *v1.Batch {
	b := &v1.Batch{Spec: v1.BatchSpec{Runs: runs}}
	b.Name = "b"
	return b
}

func password(value string) *corev1.Secret {
	s := &corev1.Secret{Data: map[string][]byte{"password": []byte(value)}}
	s.Name = "db"
	return s
}

func mirror() *v1.Mirror {
	m := &v1.Mirror{Spec: v1.MirrorSpec{Secret: "db"}}
	m.Name = "m"
	return m
}

func transfer(data string) *v1.Transfer {
	t := &v1.Transfer{Spec: v1.TransferSpec{Data: data}}
	t.Name = "t"
	return t
}

func timer(value string) *v1.Timer {
	t := &v1.Timer{Spec: v1.TimerSpec{Value: value}}
	t.Name = "t"
	return t
}
