"""Records in batches: cut, joined, written as blocks of the frames topic, and read from them."""
