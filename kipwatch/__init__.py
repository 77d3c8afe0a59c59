"""kipwatch as it is installed: one name beside other people's packages, with all of ours below it."""
