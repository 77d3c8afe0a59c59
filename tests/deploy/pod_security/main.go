// Judges pods by a level of the Pod Security Standards, with Kubernetes' own code.
// The argument is the level, standard input a list of pods; for each the reasons against it are printed.
package main

import (
	"encoding/json"
	"log"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

func main() {
	level, err := api.ParseLevel(os.Args[1])
	demand(err)
	var pods []corev1.Pod
	demand(json.NewDecoder(os.Stdin).Decode(&pods))

	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	demand(err)
	reasons := make([][]string, len(pods))
	for place, pod := range pods {
		at := api.LevelVersion{Level: level, Version: api.LatestVersion()}
		results := evaluator.EvaluatePod(at, &pod.ObjectMeta, &pod.Spec)
		reasons[place] = append([]string{}, policy.AggregateCheckResults(results).ForbiddenReasons...)
	}
	demand(json.NewEncoder(os.Stdout).Encode(reasons))
}

func demand(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
