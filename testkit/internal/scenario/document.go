package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// A document is a parsed YAML file. Its nodes have line numbers.
type document struct {
	file  string
	roots []*yaml.Node // without empty ones
}

// syntaxMessage parses an error of the YAML package, which has no structured form.
var syntaxMessage = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

func parseDocument(file string, data []byte) (*document, error) {
	d := &document{file: file}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var node yaml.Node
		err := decoder.Decode(&node)
		switch {
		case errors.Is(err, io.EOF):
			return d, nil
		case err != nil:
			return nil, d.syntaxError(err, 1)
		}
		root := node.Content[0]
		if root.ShortTag() == nullTag {
			continue
		}
		if err := d.normalize(root); err != nil {
			return nil, err
		}
		d.roots = append(d.roots, root)
	}
}

// syntaxError reports the package's error at its own line, or else at the given line.
func (d *document) syntaxError(err error, line int) error {
	message := err.Error()
	if parts := syntaxMessage.FindStringSubmatch(message); parts != nil {
		message = parts[2]
		if n, err := strconv.Atoi(parts[1]); err == nil {
			line = n
		}
	}
	return &Error{
		Position: Position{d.file, line},
		Message:  fmt.Sprintf("this is not YAML: %s: check indentation, quotes and tabs around this line", message),
	}
}

func (d *document) errorf(node *yaml.Node, format string, args ...any) *Error {
	return &Error{Position: Position{d.file, node.Line}, Message: fmt.Sprintf(format, args...)}
}

const (
	nullTag   = "!!null"
	boolTag   = "!!bool"
	stringTag = "!!str"
	timeTag   = "!!timestamp"
	mergeTag  = "!!merge"
)

// legacyBooleans holds the unquoted words that YAML 1.1, and so kubectl, reads as true or false.
var legacyBooleans = map[string]string{
	"y": "true", "Y": "true", "yes": "true", "Yes": "true", "YES": "true", "on": "true", "On": "true", "ON": "true",
	"n": "false", "N": "false", "no": "false", "No": "false", "NO": "false", "off": "false", "Off": "false",
	"OFF": "false",
}

// normalize gives plain values the meaning that they have in kubectl, and rejects values that JSON cannot express.
func (d *document) normalize(node *yaml.Node) error {
	switch node.Kind {
	case yaml.ScalarNode:
		switch node.ShortTag() {
		case timeTag:
			node.Tag = stringTag
		case stringTag:
			if value, found := legacyBooleans[node.Value]; found && node.Style == 0 {
				node.Tag = boolTag
				node.Value = value
			}
		}
		return nil
	case yaml.MappingNode:
		return d.normalizeMapping(node)
	default:
		for _, child := range node.Content {
			if err := d.normalize(child); err != nil {
				return err
			}
		}
		return nil
	}
}

func (d *document) normalizeMapping(node *yaml.Node) error {
	lines := map[string]int{}
	for i := 0; i < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		switch {
		case key.ShortTag() == mergeTag:
		case key.Kind != yaml.ScalarNode:
			return d.errorf(key, "a key is %s, and has to be a text: put what is meant in quotes", describe(key))
		case lines[key.Value] != 0:
			return d.errorf(key, "%s is there twice, first in line %d: remove one of the two", key.Value, lines[key.Value])
		default:
			key.Tag = stringTag
			lines[key.Value] = key.Line
		}
		if err := d.normalize(value); err != nil {
			return err
		}
	}
	return nil
}

// value decodes a node into the types of decoded JSON.
func (d *document) value(node *yaml.Node) (any, error) {
	var value any
	if err := node.Decode(&value); err != nil {
		return nil, d.syntaxError(err, node.Line)
	}
	data, err := utiljson.Marshal(value)
	if err != nil {
		return nil, d.errorf(node, "this cannot be expressed in JSON (%v): give another value", err)
	}
	if err := utiljson.Unmarshal(data, &value); err != nil {
		return nil, d.errorf(node, "this cannot be expressed in JSON (%v): give another value", err)
	}
	return value, nil
}

// describe names the type of a node.
func describe(node *yaml.Node) string {
	node = deref(node)
	switch tag := node.ShortTag(); {
	case node.Kind == yaml.MappingNode:
		return "a mapping"
	case node.Kind == yaml.SequenceNode:
		return "a list"
	case tag == nullTag, node.Value == "":
		return "empty"
	case tag == boolTag:
		return "true or false"
	case tag == stringTag:
		return "a text"
	default:
		return "a number"
	}
}

// deref follows an alias.
func deref(node *yaml.Node) *yaml.Node {
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	return node
}
