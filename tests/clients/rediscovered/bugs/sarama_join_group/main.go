// Joins a group with the default configuration.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/IBM/sarama"
)

type joined struct{ leave context.CancelFunc }

func (handler joined) Setup(sarama.ConsumerGroupSession) error {
	handler.leave()
	return nil
}

func (joined) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (joined) ConsumeClaim(sarama.ConsumerGroupSession, sarama.ConsumerGroupClaim) error { return nil }

func main() {
	bootstrap, topic := os.Args[1], os.Args[2]
	group, err := sarama.NewConsumerGroup([]string{bootstrap}, topic+"-classic", sarama.NewConfig())
	check(err)
	limited, leave := context.WithTimeout(context.Background(), 20*time.Second)
	check(group.Consume(limited, []string{topic}, joined{leave}))
	check(group.Close())
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
