"""The graph: plan, lanes, tally."""

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from evalscribe.graph.nodes import State, lane, plan, spread, tally
from evalscribe.graph.shift import Shift


def builder() -> StateGraph[State, Shift, State, State]:
    """Nodes and edges. No node has a retry policy: a lane never raises, and retries belong to the model's adapter."""
    graph = StateGraph(State, context_schema=Shift)
    graph.add_node("plan", plan)
    graph.add_node("lane", lane)
    graph.add_node("tally", tally)
    graph.add_edge(START, "plan")
    graph.add_conditional_edges("plan", spread, ["lane", "tally"])
    graph.add_edge("lane", "tally")
    graph.add_edge("tally", END)
    return graph


def make_graph() -> CompiledStateGraph[State, Shift, State, State]:
    """What `langgraph.json` names: without a checkpointer, because the server brings its own."""
    return builder().compile(name="evalscribe")
