package operatorproc

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
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
			l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
			if err != nil {
				return nil, fmt.Errorf("starting the operator: reserving a port for %s: %w", placeholder, err)
			}
			defer func() { _ = l.Close() }() // after the last one is reserved
			addr, ok := l.Addr().(*net.TCPAddr)
			if !ok {
				return nil, fmt.Errorf("starting the operator: %v is not a TCP address", l.Addr())
			}
			pairs = append(pairs, placeholder, strconv.Itoa(addr.Port))
		}
	}
	return pairs, nil
}
