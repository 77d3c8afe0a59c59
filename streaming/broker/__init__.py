"""A broker of our own, the topics of any broker, and processes that end with their parent."""
