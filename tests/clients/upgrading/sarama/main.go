// One step by sarama with its own default for the version of Kafka.
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/Shopify/sarama"
)

const (
	records  = 10
	patience = 30 * time.Second
)

func main() {
	time.AfterFunc(patience, func() { fail("not done in time") })
	config := sarama.NewConfig()
	config.Producer.Return.Successes = true
	config.Consumer.Return.Errors = true
	steps := map[string]func(string, string, *sarama.Config) error{"produce": produce, "fetch": fetch}
	if err := steps[os.Args[3]](os.Args[1], os.Args[2], config); err != nil {
		fail(err)
	}
}

func fail(why any) {
	fmt.Fprintln(os.Stderr, why)
	os.Exit(1)
}

func produce(bootstrap, topic string, config *sarama.Config) error {
	config.ClientID = "old-producer"
	producer, err := sarama.NewSyncProducer([]string{bootstrap}, config)
	if err != nil {
		return err
	}
	for number := 0; number < records; number++ {
		value := sarama.StringEncoder(fmt.Sprint("record ", number))
		if _, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: value}); err != nil {
			return err
		}
	}
	return producer.Close()
}

func fetch(bootstrap, topic string, config *sarama.Config) error {
	config.ClientID = "old-consumer"
	consumer, err := sarama.NewConsumer([]string{bootstrap}, config)
	if err != nil {
		return err
	}
	partition, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
	if err != nil {
		return err
	}
	for number := 0; number < records; number++ {
		select {
		case <-partition.Messages():
		case err := <-partition.Errors():
			return err
		}
	}
	return nil
}
