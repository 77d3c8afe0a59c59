"""Facts and rules to findings, of one connection and of what several connections share."""
