"""A small agent harness of our own. It is a black box to the rest: a program, an environment, a model address."""
