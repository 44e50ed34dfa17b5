package broker_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"

	"github.com/tidemq/tidemq/broker"
)

// A broker inside a test or another program: on a free port, with a data
// directory of its own.
func Example() {
	dir, err := os.MkdirTemp("", "tidemq")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	b, err := broker.New(broker.Options{
		Dir:         dir,
		Listen:      []string{"127.0.0.1:0"},
		DelayLevels: "1s 5s 1m 1h 1d",
		Logger:      slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := b.Start(context.Background()); err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening on a port:", b.Addr() != "127.0.0.1:0")
	fmt.Println("healthy:", b.Healthy() == nil)
	fmt.Println("closed:", b.Close())
	// Output:
	// listening on a port: true
	// healthy: true
	// closed: <nil>
}
