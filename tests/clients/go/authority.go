// What each program in Go needs to trust the brokers of the harness.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"os"
)

// Returns what trusts the authority of the brokers, nil where they speak plaintext.
func authority() *tls.Config {
	path := os.Getenv("CLIENT_CA")
	if path == "" {
		return nil
	}
	certificate, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(certificate)
	return &tls.Config{RootCAs: trusted, ServerName: "127.0.0.1"}
}
