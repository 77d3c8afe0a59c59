// One step by kafka-go, by what its releases have in common.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/segmentio/kafka-go"
)

const (
	records  = 10
	patience = 30 * time.Second
)

func main() {
	limited, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	steps := map[string]func(context.Context, string, string) error{"produce": produce, "consume": consume}
	if err := steps[os.Args[3]](limited, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func produce(limited context.Context, bootstrap, topic string) error {
	writer := kafka.NewWriter(kafka.WriterConfig{Brokers: []string{bootstrap}, Topic: topic, BatchSize: 1, MaxAttempts: 3})
	for number := 0; number < records; number++ {
		message := kafka.Message{Value: []byte(fmt.Sprint("record ", number))}
		if err := writer.WriteMessages(limited, message); err != nil {
			return err
		}
	}
	return writer.Close()
}

func consume(limited context.Context, bootstrap, topic string) error {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{bootstrap}, GroupID: topic + "-group", Topic: topic, MinBytes: 1, MaxBytes: 1 << 20,
	})
	for number := 0; number < records; number++ {
		if _, err := reader.ReadMessage(limited); err != nil {
			return err
		}
	}
	return nil
}
