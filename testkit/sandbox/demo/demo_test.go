package demo

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
)

func nothing(*runtime.Scheme) error { return nil }

func TestRunFolderError(t *testing.T) {
	t.Parallel()
	err := Run(t.Context(), Demo{Dir: t.TempDir(), AddToScheme: nothing}, &strings.Builder{})
	if err == nil || !strings.Contains(err.Error(), "operator") {
		t.Errorf("error %v, want one sentence about the folder", err)
	}
}

// The first step that fails is the last, and its error contains its number.
func TestSteps(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	env := &Env{out: &out}
	wrong := errors.New("it is not as promised")
	step := func(err error) func(context.Context) error {
		return func(context.Context) error {
			env.Printf("error %v", err)
			return err
		}
	}
	steps := []Step{{"This works", step(nil)}, {"This does not", step(wrong)}, {"This is not played", step(nil)}}
	err := env.play(t.Context(), steps)
	if !errors.Is(err, wrong) || !strings.Contains(err.Error(), "act 2") {
		t.Errorf("error %v, want that of step 2", err)
	}
	const want = "\n1. This works.\n   error <nil>\n\n2. This does not.\n   error it is not as promised\n"
	if out.String() != want {
		t.Errorf("it prints %q, want %q", out.String(), want)
	}
	out.Reset()
	if err := env.play(t.Context(), steps[:1]); err != nil || !strings.HasSuffix(out.String(), "\nThe end.\n") {
		t.Errorf("a successful demo ends with %v and prints %q", err, out.String())
	}
}

func TestSeconds(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		8 * time.Second: "8 s", 1684 * time.Millisecond: "1.68 s", 44 * time.Millisecond: "0.04 s", time.Minute: "60 s",
	} {
		if got := Seconds(d); got != want {
			t.Errorf("Seconds(%s) = %q, want %q", d, got, want)
		}
	}
}

func TestAwait(t *testing.T) {
	t.Parallel()
	n := 0
	got, err := Await(t.Context(), func(context.Context) (int, bool, error) {
		n++
		return n, n == 3, nil
	})
	if got != 3 || err != nil {
		t.Errorf("Await returns %d, %v, want the third value", got, err)
	}
	wrong := errors.New("no response")
	_, err = Await(t.Context(), func(context.Context) (int, bool, error) { return 0, false, wrong })
	if !errors.Is(err, wrong) {
		t.Errorf("error %v, want that of poll", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Await(ctx, func(context.Context) (int, bool, error) { return 0, false, nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that the demo was interrupted", err)
	}
}
