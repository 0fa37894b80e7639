package reference

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// DerivedCache caches the results of sdk.Derive. It is safe for concurrent use.
type DerivedCache struct {
	mu         sync.Mutex
	values     map[DerivedKey]derivedValue
	lastExpiry time.Time
}

// DerivedKey identifies a value by the UIDs of the object that uses it and of its source.
type DerivedKey struct{ User, UID types.UID }

type derivedValue struct {
	version string
	value   any
	used    time.Time
}

// derivedTTL is the time after which an unused value is dropped. A later use costs one request.
const derivedTTL = time.Hour

// Get returns the value for this version, or nil.
func (x *DerivedCache) Get(key DerivedKey, version string) any {
	x.mu.Lock()
	defer x.mu.Unlock()
	e, ok := x.values[key]
	if !ok || e.version != version {
		return nil
	}
	e.used = time.Now()
	x.values[key] = e
	return e.value
}

// Put stores the value for this version.
func (x *DerivedCache) Put(key DerivedKey, version string, value any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	if x.values == nil || now.Sub(x.lastExpiry) > derivedTTL {
		fresh := map[DerivedKey]derivedValue{}
		for k, e := range x.values {
			if now.Sub(e.used) < derivedTTL {
				fresh[k] = e
			}
		}
		x.values = fresh
		x.lastExpiry = now
	}
	x.values[key] = derivedValue{version, value, now}
}
