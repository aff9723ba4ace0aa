"""Minimum cuts: binary models by max-flow, their persistent labels by QPBO, expansion moves."""
