"""The one package that kipwatch installs: a wheel holds all other packages of ours below it."""
