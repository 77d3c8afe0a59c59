"""Topic records packed, unpacked, cut and joined in batches."""
