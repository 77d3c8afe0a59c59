// Adds to a pod what the admission policy of the chart would: Kubernetes' own compiler and patcher of such policies.
// Standard input is {"expression": CEL, "pod": the pod}; the patched pod is printed.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

func main() {
	var given struct {
		Expression string
		Pod        corev1.Pod
	}
	demand(json.NewDecoder(os.Stdin).Decode(&given))

	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	demand(err)
	options := cel.OptionalVariableDeclarations{HasPatchTypes: true}
	condition := &patch.JSONPatchCondition{Expression: given.Expression}
	compiled := compiler.CompileMutatingEvaluator(condition, options, environment.StoredExpressions)

	scheme := runtime.NewScheme()
	demand(corev1.AddToScheme(scheme))
	kind, resource := corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithResource("pods")
	attributes := admission.NewAttributesRecord(&given.Pod, nil, kind, given.Pod.Namespace, given.Pod.Name,
		resource, "", admission.Create, &metav1.CreateOptions{}, false, nil)
	request := patch.Request{
		MatchedResource: resource,
		VersionedAttributes: &admission.VersionedAttributes{
			Attributes: attributes, VersionedKind: kind, VersionedObject: &given.Pod,
		},
		ObjectInterfaces: admission.NewObjectInterfacesFromScheme(scheme),
	}
	patched, err := patch.NewJSONPatcher(compiled).Patch(context.Background(), request, celconfig.RuntimeCELCostBudget)
	demand(err)
	demand(json.NewEncoder(os.Stdout).Encode(patched))
}

func demand(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
