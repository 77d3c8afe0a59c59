// A client that writes a key log: sends each frame, and waits for its response.
// Arguments: address, CA file, key log, TLS version or "plain", then the frames in hexadecimal.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"io"
	"log"
	"net"
	"os"
)

var versions = map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	connection := connect(os.Args[1], os.Args[2], os.Args[3], os.Args[4])
	for _, text := range os.Args[5:] {
		frame, err := hex.DecodeString(text)
		check(err)
		_, err = connection.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...))
		check(err)
		prefix := make([]byte, 4)
		_, err = io.ReadFull(connection, prefix)
		check(err)
		_, err = io.CopyN(io.Discard, connection, int64(binary.BigEndian.Uint32(prefix)))
		check(err)
	}
	check(connection.Close())
}

func connect(address, ca, keyLog, version string) net.Conn {
	if version == "plain" {
		connection, err := net.Dial("tcp", address)
		check(err)
		return connection
	}
	pem, err := os.ReadFile(ca)
	check(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	keys, err := os.OpenFile(keyLog, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	check(err)
	connection, err := tls.Dial("tcp", address, &tls.Config{
		RootCAs:      roots,
		KeyLogWriter: keys,
		MinVersion:   versions[version],
		MaxVersion:   versions[version],
	})
	check(err)
	return connection
}
