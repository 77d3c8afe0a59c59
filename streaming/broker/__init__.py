"""The embedded broker, the topics of any broker, and processes that end with their parent."""
