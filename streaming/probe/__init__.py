"""`kipwatch probe`: plays each duty of a broker with a broker under test, and has the exchange judged."""
