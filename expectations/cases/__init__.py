"""Cases of rules: short conversations in a notation of their own, and the findings that they yield."""
