package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"sync"
)

// golden collects the first frame of each kind. Safe for many goroutines.
type golden struct {
	client, broker, prefix string
	clientOnly             bool

	mu     sync.Mutex
	frames map[string]captured // by file name without its ending
}

type captured struct {
	frame []byte
	d     description
}

func (g *golden) keep(frame []byte, d description) {
	d.Client, d.Broker = g.client, g.broker
	if d.Request < 0 || g.clientOnly && d.Sender != "client" {
		return
	}
	name := g.name(d)
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.frames[name]; ok {
		return
	}
	g.frames[name] = captured{frame, d}
}

func (g *golden) name(d description) string {
	name := fmt.Sprintf("%s-%03d", g.prefix, d.Request)
	response := d.Flag&flagResponse != 0
	if (d.Sender == "broker") != response {
		name += "-broker"
	}
	if response {
		return fmt.Sprintf("%s-response-%d", name, d.Code)
	}
	return name + "-request"
}

// write puts all frames into dir and returns the names, sorted. Frames that an
// earlier run with the same prefix left are removed first, or, with clientOnly,
// only written over: a broker that refuses a thing keeps the client from
// sending what comes after it, such as the end of a transaction.
func (g *golden) write(dir string) ([]string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.frames) == 0 {
		return nil, fmt.Errorf("no frame was seen; did the command use TIDEMQ_INTEROP_ADDR?")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if !g.clientOnly {
		old, err := filepath.Glob(filepath.Join(dir, g.prefix+"-[0-9]*"))
		if err != nil {
			return nil, err
		}
		for _, f := range old {
			if err := os.Remove(f); err != nil {
				return nil, err
			}
		}
	}
	var names []string
	for name, c := range g.frames {
		text, err := json.MarshalIndent(c.d, "", "  ")
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, name+".bin"), c.frame, 0o644); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, name+".json"), append(text, '\n'), 0o644); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	sort.Strings(names)
	return names, nil
}
