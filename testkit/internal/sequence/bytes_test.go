package sequence_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homeostat-dev/homeostat/testkit/internal/schema"
	"github.com/homeostat-dev/homeostat/testkit/internal/sequence"
	"github.com/homeostat-dev/homeostat/testkit/internal/validity"
)

// plainBytes returns bytes of which each chunk is one step with one change.
func plainBytes(seed uint64, chunks int) []byte {
	source := rand.New(rand.NewPCG(seed, 0))
	var data []byte
	for range chunks {
		data = append(data, byte(source.Uint32()), byte(source.Uint32()), byte(source.Uint32()), 0x80)
	}
	return data
}

func TestDecode(t *testing.T) {
	t.Parallel()
	s := database(t)
	tests := map[string]struct {
		reason string
		data   []byte
		want   int
	}{
		"nothing":           {"the sample is always the first object", nil, 1},
		"one chunk":         {"one change", []byte{0x40, 0, 0, 0x80}, 2},
		"part of a chunk":   {"the rest counts as zeros", []byte{0x40}, 2},
		"joined":            {"a small last byte joins the next change to the step", []byte{0x40, 0, 0, 0, 0x50, 0, 0, 0x80}, 2},
		"joined to nothing": {"there is no next change", []byte{0x40, 0, 0, 0}, 2},
		"back":              {"a large last byte returns to the sample", []byte{0x40, 0, 0, 0x80, 0, 0, 0, 0xFF}, 3},
		"back at once":      {"it is the sample already", []byte{0, 0, 0, 0xFF}, 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := sequence.Decode(s, sample(t), tc.data)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != tc.want {
				t.Errorf("%s: %d objects, want %d:\n%v", tc.reason, len(got), tc.want, got)
			}
			if name == "back" && !reflect.DeepEqual(got[0], got[2]) {
				t.Errorf("%s: %s", tc.reason, cmp.Diff(got[0], got[2]))
			}
		})
	}
}

// TestNearBytesGiveNearSequences checks that a changed chunk leaves the earlier steps as they are, and most of the
// later ones.
func TestNearBytesGiveNearSequences(t *testing.T) {
	t.Parallel()
	const chunks = 12
	s := database(t)
	same, all := 0, 0
	for seed := range uint64(repeat(3, 12)) {
		data := plainBytes(seed, chunks)
		before := fromBytes(t, s, data)
		at := int(seed) % chunks
		data[at*4+int(seed)%3]++
		after := fromBytes(t, s, data)
		if diff := cmp.Diff(describe(before[:at+1]), describe(after[:at+1])); diff != "" {
			t.Fatalf("another byte in step %d changes steps before it:\n%s", at+1, diff)
		}
		for i := at + 2; i < min(len(before), len(after)); i++ {
			all++
			if len(before[i].Changes) == 1 && len(after[i].Changes) == 1 &&
				before[i].Changes[0].Property == after[i].Changes[0].Property {
				same++
			}
		}
	}
	if same < all*9/10 {
		t.Errorf("only %d of %d later steps change the same property", same, all)
	}
}

func TestLongerBytesContinue(t *testing.T) {
	t.Parallel()
	s := database(t)
	data := plainBytes(1, 10)
	short, long := describe(fromBytes(t, s, data[:20])), describe(fromBytes(t, s, data))
	if diff := cmp.Diff(short, long[:len(short)]); diff != "" || len(long) != 11 {
		t.Errorf("%d steps: %s", len(long), diff)
	}
}

// TestBytesAndOracle checks that the oracle decides as it does without bytes, and that a rejected chunk is consumed.
func TestBytesAndOracle(t *testing.T) {
	t.Parallel()
	s := database(t)
	rules := &validity.Count{Validator: validity.NewRules(s)}
	g, err := sequence.FromBytes(s, sample(t), rules, plainBytes(3, 60))
	if err != nil {
		t.Fatal(err)
	}
	steps := take(t, g, 100)
	if len(steps)+rules.Rejected() != 61 || rules.Rejected() == 0 {
		t.Errorf("%d steps and %d rejections of 60 chunks and the sample", len(steps), rules.Rejected())
	}
	if _, err := g.Next(t.Context()); !errors.Is(err, sequence.ErrExhausted) {
		t.Errorf("after the end: %v", err)
	}
}

// FuzzDecode checks that any bytes give a sequence of objects that the schema allows, and the same one each time.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{})
	f.Add(plainBytes(1, 6))
	f.Add(bytes.Repeat([]byte{0xFF}, 30))
	f.Add(make([]byte, 30))
	s, obj := database(f), sample(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 400 {
			t.Skip("long inputs are only slow")
		}
		got, err := sequence.Decode(s, obj, data)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) < 1 || len(got) > len(data)/4+2 {
			t.Errorf("%d objects of %d bytes", len(got), len(data))
		}
		for i, o := range got {
			if errs, err := s.Violations(o); err != nil || len(errs) > 0 {
				t.Fatalf("object %d is invalid: %v %v\n%v", i, err, errs, got)
			}
		}
		again, err := sequence.Decode(s, obj, data)
		if err != nil || !reflect.DeepEqual(got, again) {
			t.Errorf("the same bytes give another sequence: %v", err)
		}
	})
}

func fromBytes(t *testing.T, s *schema.Schema, data []byte) []sequence.Step {
	t.Helper()
	g, err := sequence.FromBytes(s, sample(t), validity.AcceptAll{}, data)
	if err != nil {
		t.Fatal(err)
	}
	return take(t, g, len(data)+1)
}
