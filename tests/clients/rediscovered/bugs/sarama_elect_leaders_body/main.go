// Elects leaders as a client of Kafka 2.3, whose newest version of ElectLeaders is 1.
package main

import (
	"fmt"
	"os"

	"github.com/IBM/sarama"
)

func main() {
	bootstrap, topic := os.Args[1], os.Args[2]
	config := sarama.NewConfig()
	config.Version = sarama.V2_3_0_0
	config.Admin.Retry.Max = 0
	admin, err := sarama.NewClusterAdmin([]string{bootstrap}, config)
	check(err)
	_, err = admin.ElectLeaders(sarama.PreferredElection, map[string][]int32{topic: {0}})
	check(err)
	check(admin.Close())
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
