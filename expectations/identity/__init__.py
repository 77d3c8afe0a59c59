"""Identities that several connections may share, and what each connection claims of them."""
