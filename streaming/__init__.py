"""All that does input and output: feeder, query, `check`, demo, benches and the command line."""
