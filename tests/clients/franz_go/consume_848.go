package main

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
)

func init() {
	steps["consume-848"] = consumeNextGeneration
}

// Until it is the default, franz-go has the protocol of KIP-848 for those who ask for it by this value.
func consumeNextGeneration(limited context.Context, bootstrap, topic string) error {
	asking := context.WithValue(limited, "opt_in_kafka_next_gen_balancer_beta", true)
	return consumeBy(limited, bootstrap, topic, "consumer", kgo.WithContext(asking))
}
