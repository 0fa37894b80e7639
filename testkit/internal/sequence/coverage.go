package sequence

import (
	"fmt"
	"strings"

	"github.com/homeostat-dev/homeostat/testkit/internal/schema"
)

// Coverage lists the properties of a schema and the number of steps that exercised each.
type Coverage struct {
	// Properties lists all properties that a sequence can change, in the order of the schema.
	Properties []Property
}

// A Property is one property of the schema.
type Property struct {
	// Name is for example spec.ports[*].port.
	Name string
	// Exercised is the number of valid steps in which the property was added, removed or given another value.
	Exercised int
	// Rejected is the number of rejected proposals to change it.
	Rejected int
}

// Exercised returns the number of properties that were exercised at least once.
func (c Coverage) Exercised() int { return len(c.Properties) - len(c.Missed()) }

// Missed returns the properties that no valid step has exercised.
func (c Coverage) Missed() []Property {
	var missed []Property
	for _, p := range c.Properties {
		if p.Exercised == 0 {
			missed = append(missed, p)
		}
	}
	return missed
}

// String formats the number of exercised properties and the names of the others.
func (c Coverage) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "exercised %d of %d properties", c.Exercised(), len(c.Properties))
	for _, p := range c.Missed() {
		fmt.Fprintf(&b, "\n  never: %s", p.Name)
		if p.Rejected > 0 {
			fmt.Fprintf(&b, " (refused %d times)", p.Rejected)
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

func (c *cover) reject(property string) {
	if i, ok := c.index[property]; ok { // a return to the sample belongs to no property
		c.properties[i].Rejected++
	}
}

func (c *cover) has(property string) bool { return c.properties[c.index[property]].Exercised > 0 }

func (c *cover) rejectionsOf(property string) int { return c.properties[c.index[property]].Rejected }

func (c *cover) report() Coverage {
	return Coverage{Properties: append([]Property(nil), c.properties...)}
}
