package operatorproc

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/homeostat-dev/homeostat/testkit/internal/freeport"
)

// portPlaceholder matches {port} and {port:NAME}.
var portPlaceholder = regexp.MustCompile(`\{port(:[A-Za-z0-9_.-]+)?\}`)

// freePorts returns pairs of a placeholder in texts and a free port. The ports differ. Another process may bind a port
// before the operator does.
func freePorts(texts []string) (pairs []string, _ error) {
	for _, text := range texts {
		for _, placeholder := range portPlaceholder.FindAllString(text, -1) {
			if slices.Contains(pairs, placeholder) {
				continue
			}
			l, port, err := freeport.Reserve()
			if err != nil {
				return nil, fmt.Errorf("starting the operator: reserving a port for %s: %w", placeholder, err)
			}
			defer func() { _ = l.Close() }() // after the last one is reserved
			pairs = append(pairs, placeholder, strconv.Itoa(port))
		}
	}
	return pairs, nil
}
