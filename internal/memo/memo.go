// Package memo remembers the results of functions.
package memo

import "sync"

// Func returns a function that calls f once for each key, unless f returns an error. Goroutines can
// share it. Calls wait for each other.
func Func[K comparable, V any](f func(key K) (V, error)) func(key K) (V, error) {
	var mu sync.Mutex
	known := map[K]V{}
	return func(key K) (V, error) {
		mu.Lock()
		defer mu.Unlock()
		if v, ok := known[key]; ok {
			return v, nil
		}
		v, err := f(key)
		if err == nil {
			known[key] = v
		}
		return v, err
	}
}
