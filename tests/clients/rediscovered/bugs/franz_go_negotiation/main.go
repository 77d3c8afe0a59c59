// Uses two connections to one broker: the client sends JoinGroup on a connection of its own.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func main() {
	limited, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(os.Args[1]))
	check(err)
	_, err = kmsg.NewPtrMetadataRequest().RequestWith(limited, client)
	check(err)
	broker := client.Broker(1)
	_, err = broker.Request(limited, kmsg.NewPtrMetadataRequest())
	check(err)
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.ProtocolType = os.Args[2], "consumer"
	_, err = broker.Request(limited, join)
	check(err)
	client.Close()
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
