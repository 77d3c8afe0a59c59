"""`kipwatch demo`: the whole road on real traffic, with planted offences that must all be found."""
