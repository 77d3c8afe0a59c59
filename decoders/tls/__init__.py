"""TLS with known secrets: records, handshake, key schedules, decryption; between TCP streams and frames."""
