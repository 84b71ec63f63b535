"""The graph: plan, lanes, tally."""

from langgraph.graph import END, START, StateGraph

from evalscribe.graph.deps import Start
from evalscribe.graph.nodes import Nodes, State
from evalscribe.graph.shift import Shift


def builder(shift: Shift | None) -> StateGraph[State, Start, State, State]:
    """Nodes and edges over one shift. No node has a retry policy: a lane never raises, and retries belong to models."""
    nodes = Nodes(shift)
    graph = StateGraph(State, context_schema=Start)
    graph.add_node("plan", nodes.plan)
    graph.add_node("lane", nodes.lane)
    graph.add_node("tally", nodes.tally)
    graph.add_edge(START, "plan")
    graph.add_conditional_edges("plan", nodes.spread, ["lane", "tally"])
    graph.add_edge("lane", "tally")
    graph.add_edge("tally", END)
    return graph
