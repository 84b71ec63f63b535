"""Grade references and stored outputs again in a sandbox, and conclude what caused a failure."""
