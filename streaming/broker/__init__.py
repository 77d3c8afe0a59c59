"""The embedded broker: the pinned jars, Java, ports, topics, and a process that ends with its parent."""
