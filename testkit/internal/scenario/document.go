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

// A document is a parsed YAML file: lines belong to nodes.
type document struct {
	file  string
	roots []*yaml.Node // without empty ones
}

// syntaxMessage takes an error of the YAML package apart, which has no other form.
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
		if err := d.settle(root); err != nil {
			return nil, err
		}
		d.roots = append(d.roots, root)
	}
}

// syntaxError puts the package's error where it says, or else into the given line.
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

// legacy are the words that YAML 1.1, and so kubectl, takes for true or false if they are not quoted.
var legacy = map[string]string{
	"y": "true", "Y": "true", "yes": "true", "Yes": "true", "YES": "true", "on": "true", "On": "true", "ON": "true",
	"n": "false", "N": "false", "no": "false", "No": "false", "NO": "false", "off": "false", "Off": "false",
	"OFF": "false",
}

// settle makes plain values mean what they mean to kubectl, and refuses what JSON cannot express.
func (d *document) settle(node *yaml.Node) error {
	switch node.Kind {
	case yaml.ScalarNode:
		switch node.ShortTag() {
		case timeTag:
			node.Tag = stringTag
		case stringTag:
			if value, found := legacy[node.Value]; found && node.Style == 0 {
				node.Tag, node.Value = boolTag, value
			}
		}
		return nil
	case yaml.MappingNode:
		return d.settleMapping(node)
	default:
		for _, child := range node.Content {
			if err := d.settle(child); err != nil {
				return err
			}
		}
		return nil
	}
}

func (d *document) settleMapping(node *yaml.Node) error {
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
			key.Tag, lines[key.Value] = stringTag, key.Line
		}
		if err := d.settle(value); err != nil {
			return err
		}
	}
	return nil
}

// value returns what a node says, in the types that JSON becomes.
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

// describe says of what type a node is.
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
