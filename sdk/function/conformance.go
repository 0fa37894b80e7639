package function

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/go-logr/logr"
)

// golden has a request and its answer for each case of [CheckConformance].
//
//go:embed testdata/*.json
var golden embed.FS

// CheckConformance checks a library for functions in some language. The function behind the transport is the one that the
// requests and answers in testdata describe: it uses each word of the protocol, as sdk/python/tests/web.py does in Python.
// Each case is one line of out. The error tells how many cases failed.
func CheckConformance(ctx context.Context, t Transport, out io.Writer) error {
	if err := t.Validate(); err != nil {
		return err
	}
	files, err := golden.ReadDir("testdata")
	if err != nil {
		return err
	}
	connection := t.Connect(logr.FromContextOrDiscard(ctx))
	defer connection.Close()
	total, failed := 0, 0
	for _, file := range files {
		name, isRequest := strings.CutPrefix(strings.TrimSuffix(file.Name(), ".json"), "request-")
		if !isRequest {
			continue
		}
		for _, v := range variants {
			total++
			result := "ok"
			if err := checkCase(ctx, connection, name, v.change); err != nil {
				result = err.Error()
				failed++
			}
			if _, err := fmt.Fprintf(out, "%s, %s: %s\n", name, v.name, result); err != nil {
				return err
			}
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d cases failed", failed, total)
	}
	return nil
}

// variants are changes of a request that do not change its answer.
var variants = []struct {
	name   string
	change func(request map[string]any)
}{
	{"as it is", func(map[string]any) {}},
	{"with a field of a later protocol", func(request map[string]any) { request["later"] = []any{1} }},
	{"with a megabyte of other text", func(request map[string]any) { annotate(request, strings.Repeat("x", 1<<20)) }},
	{"with line breaks and other letters", func(request map[string]any) {
		annotate(request, "a\nb\u2028\u00e9\U0001F600\"\\")
	}},
}

func annotate(request map[string]any, text string) {
	object, _ := request["object"].(map[string]any)
	metadata, _ := object["metadata"].(map[string]any)
	metadata["annotations"] = map[string]any{"example.com/text": text}
}

// checkCase calls the function twice, and compares its answers with the one that is expected.
func checkCase(ctx context.Context, connection Connection, name string, change func(map[string]any)) error {
	request, err := readGolden("request-" + name)
	if err != nil {
		return err
	}
	want, err := readGolden("answer-" + name)
	if err != nil {
		return err
	}
	change(request)
	data, err := json.Marshal(request)
	if err != nil {
		return err
	}
	id, _ := request["id"].(string)
	for range 2 { // the function is pure
		got, err := connection.Call(ctx, data)
		if err != nil {
			return err
		}
		answer, err := decodeAnswer(got, id)
		if err != nil {
			return err
		}
		if err := compare(want, got, answer); err != nil {
			return err
		}
	}
	return nil
}

// compare returns an error if an answer is not the one that is expected. The text of an error is that of the language.
func compare(want map[string]any, got []byte, answer *Answer) error {
	if want["error"] != nil {
		if answer.Error == "" || len(answer.Children) > 0 {
			return errors.New("it answers without an error, or with children beside it")
		}
		return nil
	}
	expected, err := json.Marshal(want)
	if err != nil {
		return err
	}
	if at := difference(expected, got); at != "" {
		return fmt.Errorf("the answer differs at %s: it is %s, want %s", at, got, expected)
	}
	return nil
}

func readGolden(name string) (map[string]any, error) {
	data, err := golden.ReadFile(path.Join("testdata", name+".json"))
	if err != nil {
		return nil, err
	}
	var content map[string]any
	return content, json.Unmarshal(data, &content)
}
