package offline

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
)

// random is a generator that depends on nothing else.
func random(seed uint64, name string, i int) *rand.Rand {
	text := binary.LittleEndian.AppendUint64(nil, seed)
	text = binary.LittleEndian.AppendUint64(text, uint64(i))
	return rand.New(rand.NewChaCha8(sha256.Sum256(append(text, name...))))
}

// redrawn is random for the first draw of sample i, and another for each one after.
func redrawn(seed uint64, name string, i, again int) *rand.Rand {
	if again > 0 {
		name = fmt.Sprintf("%s/%d", name, again)
	}
	return random(seed, name, i)
}

// pick returns one element.
func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// shuffled returns the elements in a random order.
func shuffled[T any](r *rand.Rand, from []T) []T {
	to := make([]T, len(from))
	for i, j := range r.Perm(len(from)) {
		to[i] = from[j]
	}
	return to
}
