package versions

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	v2 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v2"
)

// The limits of a selector: those of its forms in v1, a map and a text.
const (
	maxLabels = 32
	maxText   = 4096
)

// operators are the operators of v2, by those of a parsed text.
var operators = map[selection.Operator]metav1.LabelSelectorOperator{
	selection.In:           metav1.LabelSelectorOpIn,
	selection.NotIn:        metav1.LabelSelectorOpNotIn,
	selection.NotEquals:    metav1.LabelSelectorOpNotIn,
	selection.Exists:       metav1.LabelSelectorOpExists,
	selection.DoesNotExist: metav1.LabelSelectorOpDoesNotExist,
	selection.GreaterThan:  v2.OperatorGreaterThan,
	selection.LessThan:     v2.OperatorLessThan,
	selection.Equals:       metav1.LabelSelectorOpIn,
	selection.DoubleEquals: metav1.LabelSelectorOpIn,
}

// selectorToHub returns the label selector of a selector in v1.
func selectorToHub(v any) ([]any, error) {
	switch v := v.(type) {
	case map[string]any:
		if len(v) <= maxLabels && !slices.ContainsFunc(slices.Collect(maps.Values(v)), isNoString) {
			return []any{map[string]any{"matchLabels": v}}, nil
		}
	case string:
		if s, err := parseText(v); err == nil {
			return []any{s}, nil
		}
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding the selector: %w", err)
	}
	return []any{metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: string(raw), Operator: v2.OperatorMalformed},
	}}}, nil
}

func isNoString(v any) bool {
	_, ok := v.(string)
	return !ok
}

var errSize = fmt.Errorf("selector is longer than %d characters or %d labels: shorten it", maxText, maxLabels)

// parseText returns the label selector of a text.
func parseText(text string) (s metav1.LabelSelector, err error) {
	if len(text) > maxText {
		return s, errSize
	}
	requirements, err := labels.ParseToRequirements(text)
	if err != nil {
		return s, fmt.Errorf("selector: %w", err)
	}
	for _, r := range requirements {
		values := slices.Sorted(maps.Keys(r.Values()))
		if _, ok := s.MatchLabels[r.Key()]; !ok && (r.Operator() == selection.Equals || r.Operator() == selection.DoubleEquals) {
			if s.MatchLabels == nil {
				s.MatchLabels = map[string]string{}
			}
			s.MatchLabels[r.Key()] = values[0]
			continue
		}
		s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: r.Key(), Operator: operators[r.Operator()], Values: values,
		})
	}
	return s, nil
}

// selectorToSpoke returns the selector in v1 of a label selector: a map, a text with expressions, or the malformed value.
// A label selector that is invalid becomes a text that is no selector either.
func selectorToSpoke(values []any) (any, error) {
	data, err := json.Marshal(values[0])
	if err != nil {
		return nil, fmt.Errorf("encoding the selector: %w", err)
	}
	var s metav1.LabelSelector
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("decoding the selector: %w", err)
	}
	if isMap(&s) {
		all := map[string]string{} // an empty one is not the absence of the field
		maps.Copy(all, s.MatchLabels)
		return all, nil
	}
	if v, ok := malformed(&s); ok {
		return v, nil
	}
	if parsed, err := requirements(&s); err == nil {
		if text := labels.NewSelector().Add(parsed...).String(); len(text) <= maxText {
			return text, nil
		}
	}
	return string(data), nil // a brace begins no label
}

// isMap reports whether the selector is a map in v1.
func isMap(s *metav1.LabelSelector) bool {
	return len(s.MatchExpressions) == 0 && len(s.MatchLabels) <= maxLabels
}

// malformed returns the value in v1 of a malformed selector.
func malformed(s *metav1.LabelSelector) (value any, ok bool) {
	if len(s.MatchLabels) > 0 || len(s.MatchExpressions) != 1 || s.MatchExpressions[0].Operator != v2.OperatorMalformed ||
		utiljson.Unmarshal([]byte(s.MatchExpressions[0].Key), &value) != nil || value == nil {
		return nil, false
	}
	again, err := selectorToHub(value)
	return value, err == nil && reflect.DeepEqual(again, []any{*s})
}

// requirements returns the requirements of a selector.
func requirements(s *metav1.LabelSelector) ([]labels.Requirement, error) {
	var all []labels.Requirement
	add := func(key string, operator selection.Operator, values []string) error {
		r, err := labels.NewRequirement(key, operator, values)
		if err != nil {
			return fmt.Errorf("selector: %w", err)
		}
		all = append(all, *r)
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		if err := add(key, selection.Equals, []string{s.MatchLabels[key]}); err != nil {
			return nil, err
		}
	}
	for _, e := range s.MatchExpressions {
		operator, err := operatorOf(e)
		if err != nil {
			return nil, err
		}
		if err := add(e.Key, operator, e.Values); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func operatorOf(e metav1.LabelSelectorRequirement) (selection.Operator, error) {
	for _, operator := range []selection.Operator{
		selection.In, selection.NotIn, selection.Exists, selection.DoesNotExist, selection.GreaterThan, selection.LessThan,
	} {
		if operators[operator] == e.Operator {
			return operator, nil
		}
	}
	return "", fmt.Errorf("selector: %q is no operator: use In, NotIn, Exists, DoesNotExist, Gt or Lt",
		shorten(string(e.Operator)))
}

// ParseSelector returns the selector of sources. The error is for the author of the rule.
func ParseSelector(s *metav1.LabelSelector) (labels.Selector, error) {
	if v, ok := malformed(s); ok {
		return nil, explain(v, s.MatchExpressions[0].Key)
	}
	parsed, err := requirements(s)
	if err != nil {
		return nil, err
	}
	selector := labels.NewSelector().Add(parsed...)
	switch {
	case selector.Empty():
		return nil, errors.New("selector is empty and would copy everything: name at least one label")
	case !isMap(s) && len(selector.String()) > maxText:
		return nil, errSize
	}
	return selector, nil
}

// explain returns the error of a malformed selector of v1.
func explain(v any, raw string) error {
	switch v := v.(type) {
	case string:
		_, err := parseText(v)
		return err
	case map[string]any:
		if len(v) > maxLabels {
			return errSize
		}
	}
	return fmt.Errorf("selector is %s: write a map of labels, or a text such as copyrator=true", shorten(raw))
}

// shorten limits a value in a message.
func shorten(text string) string {
	const enough = 200
	if len(text) > enough {
		return fmt.Sprintf("%.*s...", enough, text)
	}
	return text
}
