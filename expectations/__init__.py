"""What should hold: facts of connections, rules on them, findings. Pure: no Spark, no socket, no clock."""
