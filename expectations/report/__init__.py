"""Reports of what was found, for people and tools: on a terminal, as a page and as JUnit."""
