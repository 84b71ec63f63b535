"""LangGraph: the analysis graph, and where its checkpoints are. No other package imports LangGraph.

Importing `graph.analysis` loads LangGraph, which takes more than a second: import it inside the function that runs it.
"""
