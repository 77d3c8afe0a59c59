// The workload by franz-go.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

const records = 50

// Steps that old releases lack are in files of their own.
var steps = map[string]func(context.Context, string, string) error{
	"administer": administer, "produce": produce, "consume": consume, "transact": transact, "flood": flood,
}

func main() {
	bootstrap, topic := os.Args[1], os.Args[2]
	limit := time.Minute
	for _, step := range os.Args[3:] {
		if step == "flood" {
			limit = time.Hour
		}
		context, cancel := context.WithTimeout(context.Background(), limit)
		if err := steps[step](context, bootstrap, topic); err != nil {
			fmt.Fprintln(os.Stderr, step, err)
			os.Exit(1)
		}
		cancel()
	}
}

func client(bootstrap, id string, options ...kgo.Opt) (*kgo.Client, error) {
	options = append(options, kgo.SeedBrokers(bootstrap), kgo.ClientID(id))
	if user := os.Getenv("CLIENT_USER"); user != "" {
		login := plain.Auth{User: user, Pass: os.Getenv("CLIENT_PASSWORD")}
		options = append(options, kgo.SASL(login.AsMechanism()))
	}
	if trusted := authority(); trusted != nil {
		options = append(options, kgo.DialTLSConfig(trusted))
	}
	return kgo.NewClient(options...)
}

func administer(context context.Context, bootstrap, topic string) error {
	client, err := client(bootstrap, "franz-go-admin")
	if err != nil {
		return err
	}
	defer client.Close()
	wanted := kmsg.NewCreateTopicsRequestTopic()
	wanted.Topic, wanted.NumPartitions, wanted.ReplicationFactor = topic, 2, 1
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Topics = append(create.Topics, wanted)
	if _, err := create.RequestWith(context, client); err != nil {
		return err
	}
	if _, err := kmsg.NewPtrMetadataRequest().RequestWith(context, client); err != nil {
		return err
	}
	_, err = kmsg.NewPtrListGroupsRequest().RequestWith(context, client)
	return err
}

func produce(context context.Context, bootstrap, topic string) error {
	client, err := client(bootstrap, "franz-go-producer", kgo.DefaultProduceTopic(topic))
	if err != nil {
		return err
	}
	defer client.Close()
	for number := range records {
		record := kgo.StringRecord(fmt.Sprint("record ", number))
		if err := client.ProduceSync(context, record).FirstErr(); err != nil {
			return err
		}
	}
	return nil
}

// flood sends each record in a request of its own, and fetches them one by one.
func flood(context context.Context, bootstrap, topic string) error {
	count, err := strconv.Atoi(os.Getenv("CLIENT_RECORDS"))
	if err != nil {
		return err
	}
	producer, err := client(bootstrap, "franz-go-flood-producer", kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(0))
	if err != nil {
		return err
	}
	for number := range count {
		if err := producer.ProduceSync(context, kgo.StringRecord(strconv.Itoa(number))).FirstErr(); err != nil {
			return err
		}
	}
	producer.Close()
	group := []kgo.Opt{kgo.ConsumerGroup(topic + "-flood"), kgo.ConsumeTopics(topic)}
	group = append(group, kgo.FetchMaxBytes(1), kgo.FetchMaxPartitionBytes(1))
	consumer, err := client(bootstrap, "franz-go-flood-consumer", group...)
	if err != nil {
		return err
	}
	defer consumer.Close()
	for left := count; left > 0; {
		fetched := consumer.PollFetches(context)
		if err := fetched.Err0(); err != nil {
			return err
		}
		left -= fetched.NumRecords()
	}
	return nil
}

func transact(context context.Context, bootstrap, topic string) error {
	client, err := client(bootstrap, "franz-go-transactional", kgo.DefaultProduceTopic(topic), kgo.TransactionalID(topic))
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	for number := range 10 {
		record := kgo.StringRecord(fmt.Sprint("record ", number))
		if err := client.ProduceSync(context, record).FirstErr(); err != nil {
			return err
		}
	}
	return client.EndTransaction(context, kgo.TryCommit)
}

func consume(context context.Context, bootstrap, topic string) error {
	return consumeBy(context, bootstrap, topic, "classic")
}

func consumeBy(context context.Context, bootstrap, topic, protocol string, options ...kgo.Opt) error {
	options = append(options, kgo.ConsumerGroup(topic+"-"+protocol), kgo.ConsumeTopics(topic))
	client, err := client(bootstrap, "franz-go-"+protocol, options...)
	if err != nil {
		return err
	}
	defer client.Close()
	for left := records; left > 0; {
		fetched := client.PollFetches(context)
		if err := fetched.Err0(); err != nil {
			return err
		}
		left -= fetched.NumRecords()
	}
	return client.CommitUncommittedOffsets(context)
}
