// The workload by franz-go.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const records = 50

func main() {
	bootstrap, topic := os.Args[1], os.Args[2]
	steps := map[string]func(context.Context, string, string) error{
		"administer": administer, "produce": produce, "consume": consume, "transact": transact,
	}
	for _, step := range os.Args[3:] {
		context, cancel := context.WithTimeout(context.Background(), time.Minute)
		if err := steps[step](context, bootstrap, topic); err != nil {
			fmt.Fprintln(os.Stderr, step, err)
			os.Exit(1)
		}
		cancel()
	}
}

func client(bootstrap, id string, options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(options, kgo.SeedBrokers(bootstrap), kgo.ClientID(id))...)
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
	client, err := client(bootstrap, "franz-go-classic", kgo.ConsumerGroup(topic+"-classic"), kgo.ConsumeTopics(topic))
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
