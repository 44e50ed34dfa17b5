package conf

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"
)

// tuningText lists, one a line and sorted, the keys that RocketMQ 5's classes
// of settings have setters for, and a few of RocketMQ 4, as far as they have no
// effect here: threads and buffers of its implementation, parts that are not
// here (pop, timers, metrics, high availability), and settings of clients.
//
//go:embed tuning.txt
var tuningText string

var tuning = sync.OnceValue(func() map[string]bool {
	set := make(map[string]bool)
	for key := range strings.Lines(tuningText) {
		set[strings.TrimSpace(key)] = true
	}
	return set
})

// hasNoEffect reports whether key is RocketMQ's and means nothing here.
func hasNoEffect(key string) bool { return tuning()[key] }

// unknown is the warning about a key that RocketMQ does not have either. It
// names the nearest one that it has, if there is one within two letters.
func unknown(file, name string) string {
	const far = 3
	best, distance := "", far
	for k := range keys {
		if d := editDistance(name, k); d < distance || d == distance && d < far && k < best {
			best, distance = k, d
		}
	}
	if best == "" {
		return fmt.Sprintf("%s: unknown key %s, ignored", file, shorten(name))
	}
	return fmt.Sprintf("%s: unknown key %s, ignored; is %s meant?", file, shorten(name), best)
}

// editDistance counts the letters to insert, delete or replace, whatever their
// case; 1 for names that differ in case alone.
func editDistance(a, b string) int {
	if a != b && strings.EqualFold(a, b) {
		return 1
	}
	a, b = strings.ToLower(a), strings.ToLower(b)
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost = 1 + min(diagonal, row[j], row[j-1])
			}
			diagonal, row[j] = row[j], cost
		}
	}
	return row[len(b)]
}
