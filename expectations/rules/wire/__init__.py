"""Rules on the protocol itself: frames that can be read, responses that belong to a request."""
