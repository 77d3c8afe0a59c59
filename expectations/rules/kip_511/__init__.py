"""Rules on KIP-511: client software name and version in ApiVersions."""
