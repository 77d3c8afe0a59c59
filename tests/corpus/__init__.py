"""The corpus: a small capture of each case, with what kipwatch says of it, for authors of other tools."""
