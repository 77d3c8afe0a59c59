// The workload by sarama, with its default version of Kafka.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/IBM/sarama"
)

const records = 50

func main() {
	bootstrap, topic := os.Args[1], os.Args[2]
	steps := map[string]func(string, string) error{
		"administer": administer, "produce": produce, "consume": consume, "transact": transact,
	}
	for _, step := range os.Args[3:] {
		if err := steps[step](bootstrap, topic); err != nil {
			fmt.Fprintln(os.Stderr, step, err)
			os.Exit(1)
		}
	}
}

func config(id string) *sarama.Config {
	config := sarama.NewConfig()
	config.ClientID = id
	config.Producer.Return.Successes = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	if user := os.Getenv("CLIENT_USER"); user != "" {
		config.Net.SASL.Enable = true
		config.Net.SASL.User, config.Net.SASL.Password = user, os.Getenv("CLIENT_PASSWORD")
	}
	if trusted := authority(); trusted != nil {
		config.Net.TLS.Enable, config.Net.TLS.Config = true, trusted
	}
	return config
}

func administer(bootstrap, topic string) error {
	admin, err := sarama.NewClusterAdmin([]string{bootstrap}, config("sarama-admin"))
	if err != nil {
		return err
	}
	defer admin.Close()
	if err := admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: 1}, false); err != nil {
		return err
	}
	if _, _, err := admin.DescribeCluster(); err != nil {
		return err
	}
	_, err = admin.ListConsumerGroups()
	return err
}

func send(bootstrap, topic string, config *sarama.Config, count int) error {
	producer, err := sarama.NewSyncProducer([]string{bootstrap}, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	if config.Producer.Transaction.ID != "" {
		if err := producer.BeginTxn(); err != nil {
			return err
		}
	}
	for number := range count {
		value := sarama.StringEncoder(fmt.Sprint("record ", number))
		if _, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: value}); err != nil {
			return err
		}
	}
	if config.Producer.Transaction.ID != "" {
		return producer.CommitTxn()
	}
	return nil
}

func produce(bootstrap, topic string) error {
	return send(bootstrap, topic, config("sarama-producer"), records)
}

func transact(bootstrap, topic string) error {
	config := config("sarama-transactional")
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Transaction.ID = topic
	config.Net.MaxOpenRequests = 1
	return send(bootstrap, topic, config, 10)
}

type reader struct {
	left int
	done context.CancelFunc
}

func (reader *reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (reader *reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (reader *reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, "")
		if reader.left--; reader.left <= 0 {
			session.Commit()
			reader.done()
			return nil
		}
	}
	return nil
}

func consume(bootstrap, topic string) error {
	group, err := sarama.NewConsumerGroup([]string{bootstrap}, topic+"-classic", config("sarama-classic"))
	if err != nil {
		return err
	}
	defer group.Close()
	limited, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	reader := &reader{left: records / 2, done: cancel}
	if err := group.Consume(limited, []string{topic}, reader); err != nil {
		return err
	}
	if reader.left > 0 {
		return fmt.Errorf("%d records were not read", reader.left)
	}
	return nil
}
