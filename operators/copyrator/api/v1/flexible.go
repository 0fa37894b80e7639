package v1

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// The first Copyrator's article and its program used different forms for some fields. Both forms are accepted. No schema
// can express that, so other values are stored as well and reported in the status. A decoding error would prevent the
// client from reading any rule.

// Selector is a map of labels, or a text with a label selector.
//
// +kubebuilder:object:generate=false
type Selector struct { //nolint:recvcheck // MarshalJSON must work for fields that are values
	// Labels is the map, nil if there is none.
	Labels map[string]string `json:"-"`
	// Text is the text, "" if there is none.
	Text string `json:"-"`
	// Malformed is a stored value of neither form.
	Malformed json.RawMessage `json:"-"`
}

// UnmarshalJSON accepts any value.
func (s *Selector) UnmarshalJSON(raw []byte) error {
	*s = Selector{}
	if bytes.Equal(raw, []byte("null")) || json.Unmarshal(raw, &s.Labels) == nil || json.Unmarshal(raw, &s.Text) == nil {
		return nil
	}
	*s = Selector{Malformed: bytes.Clone(raw)}
	return nil
}

// MarshalJSON keeps the form of the decoded value.
func (s Selector) MarshalJSON() ([]byte, error) {
	switch {
	case s.Malformed != nil:
		return s.Malformed, nil
	case s.Labels != nil:
		return json.Marshal(s.Labels)
	default:
		return json.Marshal(s.Text)
	}
}

// DeepCopyInto copies s into out.
func (s *Selector) DeepCopyInto(out *Selector) {
	*out = Selector{Labels: maps.Clone(s.Labels), Text: s.Text, Malformed: bytes.Clone(s.Malformed)}
}

// Names is a list of names, or one name.
//
// +kubebuilder:object:generate=false
type Names struct { //nolint:recvcheck // see Selector
	// List are the names.
	List []string `json:"-"`
	// Single means that the name is written without a list.
	Single bool `json:"-"`
	// Malformed is a stored value of neither form.
	Malformed json.RawMessage `json:"-"`
}

// IsZero reports whether the value is empty.
func (n Names) IsZero() bool { return len(n.List) == 0 && n.Malformed == nil }

// UnmarshalJSON accepts any value.
func (n *Names) UnmarshalJSON(raw []byte) error {
	*n = Names{}
	var one string
	switch {
	case bytes.Equal(raw, []byte("null")):
	case json.Unmarshal(raw, &one) == nil:
		*n = Names{List: []string{one}, Single: true}
	case json.Unmarshal(raw, &n.List) != nil:
		*n = Names{Malformed: bytes.Clone(raw)}
	}
	return nil
}

// MarshalJSON keeps the form of the decoded value.
func (n Names) MarshalJSON() ([]byte, error) {
	switch {
	case n.Malformed != nil:
		return n.Malformed, nil
	case n.Single && len(n.List) == 1:
		return json.Marshal(n.List[0])
	default:
		return json.Marshal(n.List)
	}
}

// DeepCopyInto copies n into out.
func (n *Names) DeepCopyInto(out *Names) {
	*out = Names{List: slices.Clone(n.List), Single: n.Single, Malformed: bytes.Clone(n.Malformed)}
}
