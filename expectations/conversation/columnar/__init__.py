"""Observes and folds whole batches: frames → one folded window per connection."""
