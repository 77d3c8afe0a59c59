// Creates and deletes a topic on a connection, beside a client that asks for the versions.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/segmentio/kafka-go"
)

func main() {
	bootstrap, topic := os.Args[1], os.Args[2]
	client := &kafka.Client{Addr: kafka.TCP(bootstrap)}
	if _, err := client.Metadata(context.Background(), &kafka.MetadataRequest{}); err != nil {
		fail("metadata", err)
	}
	create(bootstrap, topic)
	remove(bootstrap, topic)
}

func create(bootstrap, topic string) {
	connection := dial(bootstrap)
	defer connection.Close()
	wanted := kafka.TopicConfig{Topic: topic, NumPartitions: 1, ReplicationFactor: 1}
	if err := connection.CreateTopics(wanted); err != nil {
		fail("create", err)
	}
}

func remove(bootstrap, topic string) {
	connection := dial(bootstrap)
	defer connection.Close()
	if err := connection.DeleteTopics(topic); err != nil {
		fail("delete", err)
	}
}

func dial(bootstrap string) *kafka.Conn {
	connection, err := kafka.Dial("tcp", bootstrap)
	if err != nil {
		fail("dial", err)
	}
	return connection
}

func fail(step string, err error) {
	fmt.Fprintln(os.Stderr, step, err)
	os.Exit(1)
}
