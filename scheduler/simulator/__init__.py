"""Discrete-event simulation of whole runs: the model, saved studies, what-ifs and the scenarios they begin with."""
