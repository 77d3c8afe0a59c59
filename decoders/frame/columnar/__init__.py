"""Records in batches: cut, written as blocks of the frames topic, and read from them."""
