// Describes the cluster with the default configuration.
package main

import (
	"fmt"
	"os"

	"github.com/IBM/sarama"
)

func main() {
	admin, err := sarama.NewClusterAdmin([]string{os.Args[1]}, sarama.NewConfig())
	check(err)
	_, _, err = admin.DescribeCluster()
	check(err)
	check(admin.Close())
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
