package function

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-logr/logr"
)

// recorded is a function that answers with the golden files, changed by a mistake.
type recorded struct{ mistake func(answer map[string]any) }

func (recorded) Validate() error                  { return nil }
func (r recorded) Connect(logr.Logger) Connection { return r }
func (recorded) Close()                           {}

func (r recorded) Call(_ context.Context, request []byte) ([]byte, error) {
	var req Request
	if err := json.Unmarshal(request, &req); err != nil {
		return nil, err
	}
	files, err := golden.ReadDir("testdata")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		answer, err := readGolden(strings.TrimSuffix(file.Name(), ".json"))
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(file.Name(), "answer-") && answer["id"] == req.ID {
			r.mistake(answer)
			return json.Marshal(answer)
		}
	}
	return nil, &CallError{ReasonFailed, "no such answer"}
}

func TestCheckConformance(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := CheckConformance(t.Context(), recorded{func(map[string]any) {}}, &out); err != nil {
		t.Fatalf("%v:\n%s", err, out.String())
	}
	if lines := strings.Count(out.String(), ": ok\n"); lines < 4*len(variants) {
		t.Errorf("%d cases were tried:\n%s", lines, out.String())
	}
	for name, mistake := range map[string]func(map[string]any){
		"no status":        func(a map[string]any) { delete(a, "status") },
		"no error":         func(a map[string]any) { delete(a, "error") },
		"another id":       func(a map[string]any) { a["id"] = "x" },
		"a field too much": func(a map[string]any) { a["x"] = 1 },
		"no wait":          func(a map[string]any) { delete(a, "wait") },
		"no references":    func(a map[string]any) { delete(a, "references") },
	} {
		out.Reset()
		if err := CheckConformance(t.Context(), recorded{mistake}, &out); err == nil {
			t.Errorf("%s is not found:\n%s", name, out.String())
		}
	}
}
