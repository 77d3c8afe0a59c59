"""The columnar twin of observing and folding: a batch of frames → one folded window per connection."""
