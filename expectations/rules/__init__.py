"""Every rule, one file each, in a folder per KIP; `wire` is about the protocol itself."""
