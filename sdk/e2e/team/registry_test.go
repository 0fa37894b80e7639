package team

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"

	"github.com/homeostat-dev/homeostat/testkit"
)

// registry is a registry in memory.
type registry struct {
	mu      sync.Mutex
	entries map[string]string // names by key
	ids     map[string]string // by key, also of former entries
}

func newRegistry() *registry {
	return &registry{entries: map[string]string{}, ids: map[string]string{}}
}

// ServeHTTP implements http.Handler. With If-None-Match, a known key is a conflict. A DELETE removes all entries whose keys
// begin with that of the team.
func (r *registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := req.Header.Get("Idempotency-Key")
	switch req.Method {
	case http.MethodDelete:
		key = strings.TrimPrefix(req.URL.Path, "/teams/")
		maps.DeleteFunc(r.entries, func(entry, _ string) bool { return strings.HasPrefix(entry, key) })
	case http.MethodPost:
		if r.ids[key] != "" && req.Header.Get("If-None-Match") != "" {
			w.WriteHeader(http.StatusConflict)
			return
		}
		if r.ids[key] == "" {
			r.ids[key] = fmt.Sprintf("id-%d", len(r.ids)+1)
		}
		r.entries[key] = req.URL.Query().Get("name")
	}
	_ = json.NewEncoder(w).Encode(map[string]string{"ID": r.ids[key]})
}

// state returns the number of entries of each team.
func (r *registry) state() any {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := map[string]int{}
	for _, name := range r.entries {
		counts[name]++
	}
	return counts
}

// stray returns the name of a registered team that does not exist, or "".
func (r *registry) stray(k *testkit.K) string {
	var teams List
	if err := k.Client.List(k.Context(), &teams); err != nil {
		return err.Error()
	}
	exists := map[string]bool{}
	for _, t := range teams.Items {
		exists[t.Name] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range r.entries {
		if !exists[name] {
			return name + " is registered and does not exist"
		}
	}
	return ""
}
