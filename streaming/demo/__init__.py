"""The whole road on real traffic: real clients, planted offences, and whether all of them were found."""
