package sequence

import (
	"fmt"
	"strings"

	"github.com/homeostat-dev/homeostat/testkit/internal/schema"
)

// Coverage says which properties of a schema a sequence has exercised.
type Coverage struct {
	// Properties are all that could be, in the order of the schema.
	Properties []Property
}

// A Property is one property of the schema.
type Property struct {
	// Name is for example spec.ports[*].port.
	Name string
	// Exercised is in how many valid steps it appeared, disappeared or had another value.
	Exercised int
	// Refused is how many proposals to change it were refused.
	Refused int
}

// Exercised is how many properties were exercised at least once.
func (c Coverage) Exercised() int { return len(c.Properties) - len(c.Missed()) }

// Missed are the properties that no valid step has exercised.
func (c Coverage) Missed() []Property {
	var missed []Property
	for _, p := range c.Properties {
		if p.Exercised == 0 {
			missed = append(missed, p)
		}
	}
	return missed
}

// String says how many properties were exercised, and which were not.
func (c Coverage) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "exercised %d of %d properties", c.Exercised(), len(c.Properties))
	for _, p := range c.Missed() {
		fmt.Fprintf(&b, "\n  never: %s", p.Name)
		if p.Refused > 0 {
			fmt.Fprintf(&b, " (refused %d times)", p.Refused)
		}
	}
	return b.String()
}

// cover collects a Coverage.
type cover struct {
	properties []Property
	index      map[string]int
}

func newCover(s *schema.Schema) *cover {
	c := &cover{index: map[string]int{}}
	for i, name := range s.Properties() {
		c.properties = append(c.properties, Property{Name: name})
		c.index[name] = i
	}
	return c
}

func (c *cover) add(properties []string) {
	for _, name := range properties {
		c.properties[c.index[name]].Exercised++
	}
}

func (c *cover) refuse(property string) {
	if i, ok := c.index[property]; ok { // going back to the sample is about none
		c.properties[i].Refused++
	}
}

func (c *cover) has(property string) bool { return c.properties[c.index[property]].Exercised > 0 }

func (c *cover) refusedOf(property string) int { return c.properties[c.index[property]].Refused }

func (c *cover) report() Coverage {
	return Coverage{Properties: append([]Property(nil), c.properties...)}
}
