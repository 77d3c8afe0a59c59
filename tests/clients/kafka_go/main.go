// The workload by kafka-go.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
)

const records = 50

func main() {
	bootstrap, topic := os.Args[1], os.Args[2]
	steps := map[string]func(context.Context, string, string) error{
		"administer": administer, "produce": produce, "consume": consume,
	}
	for _, step := range os.Args[3:] {
		limited, cancel := context.WithTimeout(context.Background(), 40*time.Second)
		if err := steps[step](limited, bootstrap, topic); err != nil {
			fmt.Fprintln(os.Stderr, step, err)
			os.Exit(1)
		}
		cancel()
	}
}

func login() sasl.Mechanism {
	user := os.Getenv("CLIENT_USER")
	if user == "" {
		return nil
	}
	return plain.Mechanism{Username: user, Password: os.Getenv("CLIENT_PASSWORD")}
}

func transport() *kafka.Transport {
	return &kafka.Transport{SASL: login(), TLS: authority()}
}

func administer(limited context.Context, bootstrap, topic string) error {
	client := &kafka.Client{Addr: kafka.TCP(bootstrap), Transport: transport()}
	wanted := []kafka.TopicConfig{{Topic: topic, NumPartitions: 2, ReplicationFactor: 1}}
	if _, err := client.CreateTopics(limited, &kafka.CreateTopicsRequest{Topics: wanted}); err != nil {
		return err
	}
	if _, err := client.Metadata(limited, &kafka.MetadataRequest{}); err != nil {
		return err
	}
	_, err := client.ListGroups(limited, &kafka.ListGroupsRequest{})
	return err
}

func produce(limited context.Context, bootstrap, topic string) error {
	writer := &kafka.Writer{
		Addr: kafka.TCP(bootstrap), Topic: topic, BatchSize: 1, RequiredAcks: kafka.RequireAll, Transport: transport(),
	}
	defer writer.Close()
	for number := range records {
		message := kafka.Message{Value: []byte(fmt.Sprint("record ", number))}
		if err := writer.WriteMessages(limited, message); err != nil {
			return err
		}
	}
	return nil
}

func consume(limited context.Context, bootstrap, topic string) error {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{bootstrap}, GroupID: topic + "-classic", Topic: topic, StartOffset: kafka.FirstOffset,
		Dialer: &kafka.Dialer{Timeout: 10 * time.Second, DualStack: true, SASLMechanism: login(), TLS: authority()},
	})
	defer reader.Close()
	for range records {
		if _, err := reader.ReadMessage(limited); err != nil {
			return err
		}
	}
	return nil
}
