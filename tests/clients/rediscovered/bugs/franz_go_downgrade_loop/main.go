// Asks the broker whether it is there, for two seconds.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const patience = 2 * time.Second

func main() {
	// The client may neither give up nor let itself be closed.
	time.AfterFunc(2*patience, func() { fail("it does not end") })
	client, err := kgo.NewClient(kgo.SeedBrokers(os.Args[1]), kgo.RetryTimeout(patience))
	if err != nil {
		fail(err)
	}
	limited, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	// The server is of no use, so an error is the right end.
	fmt.Fprintln(os.Stderr, client.Ping(limited))
	client.Close()
}

func fail(why any) {
	fmt.Fprintln(os.Stderr, why)
	os.Exit(1)
}
