package conversion

import (
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// functions converts whole objects.
type functions struct {
	toHub, toSpoke func(map[string]any) (map[string]any, error)
}

// Functions converts objects with Go types, for what lenses cannot express. It must be the only lens of its version. The
// functions get an object and a new one with the same metadata; they set the other fields. Their changes to the metadata are
// ignored. They must neither modify the first object nor fail for an object that the schema permits: see the package's
// section on failures.
//
// A field that the functions do not convert, or that the Go types do not have, counts as one that the other version cannot
// express.
func Functions[S, H any](toHub func(*S, *H) error, toSpoke func(*H, *S) error) Lens {
	l := Lens{name: "Functions", hubKeeps: true, spokeKeeps: true}
	if toHub == nil || toSpoke == nil {
		l.err = errors.New("a function is missing")
	}
	l.convert = &functions{toHub: typed(toHub), toSpoke: typed(toSpoke)}
	return l
}

func typed[From, To any](f func(*From, *To) error) func(map[string]any) (map[string]any, error) {
	return func(content map[string]any) (map[string]any, error) {
		from, to := new(From), new(To)
		if err := decode(content, from); err != nil {
			return nil, err
		}
		if err := decode(map[string]any{"metadata": content["metadata"]}, to); err != nil {
			return nil, err
		}
		if err := f(from, to); err != nil {
			return nil, err
		}
		result, err := runtime.DefaultUnstructuredConverter.ToUnstructured(to)
		if err != nil {
			return nil, fmt.Errorf("encoding a %T: %w", to, err)
		}
		return result, nil
	}
}

func decode(content map[string]any, into any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, into); err != nil {
		return fmt.Errorf("decoding into %T: %w", into, err)
	}
	return nil
}

// toJSON returns a value as JSON content.
func toJSON(v any) (any, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("value %v is no JSON: %w", v, err)
	}
	var result any
	if err := utiljson.Unmarshal(data, &result); err != nil {
		return nil, fmt.Errorf("value %v is no JSON: %w", v, err)
	}
	return result, nil
}
